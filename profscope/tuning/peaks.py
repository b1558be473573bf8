"""The peaks of this machine's GPU, measured by small kernels in about a second, and their compilation."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl

from profscope.device.backend import select
from profscope.device.gpus import Peaks, keep
from profscope.dispatch.running import is_recording
from profscope.errors import SessionError
from profscope.experiments.timing import Launcher, LaunchTimer

__all__ = ["Sizes", "measure", "measure_peaks", "peaks_of_sizes", "ring_of", "sizes_of"]


@triton.jit
def copy_kernel(out_ptr, in_ptr, BLOCK: tl.constexpr):  # noqa: N803
    """A program copies one block."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(in_ptr + at))


@triton.jit
def cached_copy_kernel(out_ptr, in_ptr, blocks, step, rounds, BLOCK: tl.constexpr):  # noqa: N803
    """A program copies one of `blocks` blocks each round, the one `step` further on, past L1."""
    block = tl.program_id(0) % blocks
    for _ in range(rounds):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(in_ptr + at, cache_modifier=".cg"), cache_modifier=".cg")
        block = (block + step) % blocks


@triton.jit
def chase_kernel(ring_ptr, at_ptr, steps):
    """A program follows a ring of places, past L1; each load needs the one before. at_ptr: where it is."""
    at = tl.load(at_ptr)
    for _ in range(steps):
        at = tl.load(ring_ptr + at, cache_modifier=".cg")
    tl.store(at_ptr, at)


@triton.jit
def fma_kernel(out_ptr, a, b, rounds, BLOCK: tl.constexpr, UNROLLED: tl.constexpr):  # noqa: N803
    """Each element n becomes n * a + b, UNROLLED times a round."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = at.to(tl.float32)
    for _ in range(rounds):
        for _ in tl.static_range(UNROLLED):
            x = tl.fma(x, a, b)
    tl.store(out_ptr + at, x)


@triton.jit
def dot_kernel(
    out_ptr, a_ptr, b_ptr, rounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr  # noqa: N803
):  # fmt: skip
    """A program adds the product of the same two tiles each round."""
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + cols[None, :])
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(rounds):
        total = tl.dot(a, b, total)
    at = tl.program_id(0) * M * N + rows[:, None] * N + cols[None, :]
    tl.store(out_ptr + at, total)


_LAUNCHES: Final = 9  # of each kernel that are timed
_WARM_S: Final = 0.1  # until the clocks are up
_COPY_BLOCK: Final = 4096  # int32 of a program
_CACHED_BLOCK: Final = 1024
_STEP: Final = 97  # blocks between two rounds, so that another SM copied the block before
_LINE: Final = 32  # int32 of a cache line
_MOST_CHASED_BYTES: Final = 2 << 20  # in L2
_FMA_BLOCK: Final = 1024
_UNROLLED: Final = 16
_TILE: Final = (128, 128, 64)
_CTAS_PER_SM: Final = 48  # full rounds of CTAs, whether 4, 6, 8, 12 or 16 fit on an SM
_DOT_CTAS_PER_SM: Final = 12  # and 1, 2, 3 or 4


class Sizes(NamedTuple):
    """The work of the kernels. copied_bytes: read in DRAM by the copy, and chased through; far more than L2
    has. cached_bytes: the same in L2. copies, fmas, dots: rounds of these kernels. steps: of the chase in
    DRAM."""

    sm_count: int
    copied_bytes: int
    cached_bytes: int
    copies: int
    fmas: int
    dots: int
    steps: int


Timer = Callable[[Launcher], float]
"""The microseconds that a launch takes."""


def measure_peaks(device: int = 0) -> Peaks:
    """Measure the peaks of a CUDA device now, and keep them.

    Raises SessionError within a session, which would record the kernels, and if there is no GPU; OSError if
    the file cannot be written.
    """
    if is_recording():
        raise SessionError("peaks are measured outside of sessions")
    peaks = measure(device)
    keep(device, peaks)
    return peaks


def measure(device: int) -> Peaks:
    """Measure the peaks of a CUDA device now, on its current stream."""
    with select("gpu") as backend, torch.cuda.device(device):
        timer = LaunchTimer(backend)
        return peaks_of_sizes(sizes_of(device), lambda launch: _median_us(timer, launch), "cuda")


def sizes_of(device: int) -> Sizes:
    """For a CUDA device: 0.2 to 3 ms for each kernel."""
    properties = torch.cuda.get_device_properties(device)
    l2_bytes = int(properties.L2_cache_size)
    return Sizes(
        sm_count=properties.multi_processor_count,
        copied_bytes=max(512 << 20, 4 * l2_bytes),
        cached_bytes=l2_bytes // 8,
        copies=128,
        fmas=512,
        dots=128,
        steps=4096,
    )


def peaks_of_sizes(sizes: Sizes, time_us: Timer, device: str) -> Peaks:
    """Run all kernels, the one that heats up the GPU first. device: torch's name, such as "cuda"."""
    return Peaks(
        fma_tflops=_fma_tflops(sizes, time_us, device),
        dot_fp16_tflops=_dot_tflops(sizes, time_us, device),
        dram_gb_s=_dram_gb_s(sizes, time_us, device),
        l2_gb_s=_l2_gb_s(sizes, time_us, device),
        l2_latency_ns=_latency_ns(min(sizes.cached_bytes, _MOST_CHASED_BYTES), None, time_us, device),
        dram_latency_ns=_latency_ns(sizes.copied_bytes, sizes.steps, time_us, device),
    )


def _median_us(timer: LaunchTimer, launch: Launcher) -> float:
    """Of some launches, after those that compile the kernel and get the clocks up."""
    launch()
    begun = time.monotonic()
    while time.monotonic() - begun < _WARM_S:
        launch()
        torch.cuda.synchronize()
    times: list[float] = []
    while len(times) < _LAUNCHES:
        if (took := timer.time(launch)) is not None:
            times.append(took)
        elif timer.at_limit:
            raise SessionError("the launches wait for the GPU, so their times are not known")
    return statistics.median(times)


def _fma_tflops(sizes: Sizes, time_us: Timer, device: str) -> float:
    ctas = _CTAS_PER_SM * sizes.sm_count
    out = torch.empty(ctas * _FMA_BLOCK, dtype=torch.float32, device=device)

    def launch() -> None:
        fma_kernel[(ctas,)](out, 0.75, 1.0, sizes.fmas, BLOCK=_FMA_BLOCK, UNROLLED=_UNROLLED, num_warps=4)

    return 2 * ctas * _FMA_BLOCK * sizes.fmas * _UNROLLED / time_us(launch) / 1e6


def _dot_tflops(sizes: Sizes, time_us: Timer, device: str) -> float:
    rows, cols, depth = _TILE
    ctas = _DOT_CTAS_PER_SM * sizes.sm_count
    a = torch.randn(rows, depth, device=device).to(torch.float16)
    b = torch.randn(depth, cols, device=device).to(torch.float16)
    out = torch.empty(ctas, rows, cols, dtype=torch.float32, device=device)

    def launch() -> None:
        dot_kernel[(ctas,)](out, a, b, sizes.dots, M=rows, N=cols, K=depth, num_warps=4)

    return 2 * ctas * rows * cols * depth * sizes.dots / time_us(launch) / 1e6


def _dram_gb_s(sizes: Sizes, time_us: Timer, device: str) -> float:
    ctas = sizes.copied_bytes // (4 * _COPY_BLOCK)
    source = torch.arange(ctas * _COPY_BLOCK, dtype=torch.int32, device=device)
    out = torch.empty_like(source)

    def launch() -> None:
        copy_kernel[(ctas,)](out, source, BLOCK=_COPY_BLOCK, num_warps=4)

    return 2 * 4 * ctas * _COPY_BLOCK / time_us(launch) / 1e3


def _l2_gb_s(sizes: Sizes, time_us: Timer, device: str) -> float:
    blocks = sizes.cached_bytes // (4 * _CACHED_BLOCK)
    ctas = _CTAS_PER_SM // 3 * sizes.sm_count
    source = torch.arange(blocks * _CACHED_BLOCK, dtype=torch.int32, device=device)
    out = torch.empty_like(source)

    def launch() -> None:
        cached_copy_kernel[(ctas,)](
            out, source, blocks, _STEP, sizes.copies, BLOCK=_CACHED_BLOCK, num_warps=4
        )

    return 2 * 4 * _CACHED_BLOCK * ctas * sizes.copies / time_us(launch) / 1e3


def _latency_ns(size: int, steps: int | None, time_us: Timer, device: str) -> float:
    """Of a load in a ring of so many bytes. steps: of a launch; each goes on where the one before has ended,
    so that no line comes again soon. None: all of the ring, which caches hold from the second launch on."""
    ring = ring_of(size // (4 * _LINE), device)
    torch.empty_like(ring).zero_()  # of the ring's lines, L2 has no more
    at = torch.zeros(1, dtype=torch.int32, device=device)
    count = steps or len(ring) // _LINE

    def launch() -> None:
        chase_kernel[(1,)](ring, at, count, num_warps=1)

    return time_us(launch) * 1e3 / count


def ring_of(lines: int, device: str) -> torch.Tensor:
    """int32: the first element of each line of 128 bytes is the place of the first of another line. They form
    one ring through all lines, in random order."""
    order = _LINE * torch.randperm(lines, device=device)
    ring = torch.zeros(_LINE * lines, dtype=torch.int32, device=device)
    ring[order] = order.roll(-1).to(torch.int32)
    return ring
