"""Kernels that known things bound, each in one launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench import kernels
from bench.kernels import Workload
from bench.libraries.calls import function

# ruff: noqa: N803
__all__ = [
    "CASES",
    "PAGES",
    "Launch",
    "Prepare",
    "atomics_kernel",
    "copy_kernel",
    "division_kernel",
    "float64_kernel",
    "gather_kernel",
    "matmul",
    "scatter_kernel",
    "softmax_kernel",
    "swizzled",
    "transpose_kernel",
    "unswizzled",
]

Launch = Callable[[], Any]  # returns the compiled kernel
Prepare = Callable[[bool], Launch]  # makes tensors on torch's default device: small, or of a GPU's size


@triton.jit
def spills_kernel(x_ptr, y_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Two tiles in registers."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    for _ in range(steps):
        x = x * 0.999 + y
        y = y * 0.998 + x
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offs, x + y)


@triton.jit
def atomics_kernel(x_ptr, counter_ptr, out_ptr, steps, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Adds up to one counter: each step, or once."""
    offs = tl.arange(0, BLOCK)
    total = 0.0
    ticket = 0.0
    for step in range(steps):
        x = tl.sum(tl.load(x_ptr + step * BLOCK + offs), axis=0)
        if EACH:
            ticket += tl.atomic_add(counter_ptr, x)
        else:
            total += x
    if not EACH:
        ticket = tl.atomic_add(counter_ptr, total)
    tl.store(out_ptr + tl.program_id(0), ticket)


def unswizzled() -> gl.SwizzledSharedLayout:
    """A column of a tile lies in one bank."""
    return gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


def swizzled() -> gl.SwizzledSharedLayout:
    """A column of a tile lies in all banks."""
    return gl.SwizzledSharedLayout(1, 1, 32, [1, 0])


@gluon.jit
def transpose_kernel(x_ptr, out_ptr, rounds, SIZE: gl.constexpr, SHARED: gl.constexpr):
    """A tile goes into shared memory by rows and comes back by columns."""
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, rows))
    x = gl.load(x_ptr + i[:, None] * SIZE + j[None, :])
    tile = gl.allocate_shared_memory(gl.float32, [SIZE, SIZE], SHARED)
    total = gl.zeros([SIZE, SIZE], gl.float32, columns)
    for _ in range(rounds):
        tile.store(x)
        y = tile.load(columns)
        total += y
        x = x * 0.5
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, columns))
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, columns))
    gl.store(out_ptr + gl.program_id(0) * SIZE * SIZE + j[None, :] * SIZE + i[:, None], total)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * n_cols + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + offs, e / tl.sum(e, axis=0))


@triton.jit
def float32_dot_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


@triton.jit
def scatter_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.load(index_ptr + offs), tl.load(x_ptr + offs))


@triton.jit
def division_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """64-bit division for the indices of padded rows."""
    offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    row = offs // n_cols.to(tl.int64)
    column = offs % n_cols.to(tl.int64)
    tl.store(out_ptr + offs, tl.load(x_ptr + row * 4100 + column))


@triton.jit
def float64_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float64)
    tl.store(out_ptr + offs, (tl.exp(x) + tl.sqrt(x * x + 1.0)).to(tl.float32))


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype)


def _copy(small: bool) -> Launch:
    x = _random(1 << (14 if small else 26))
    out = torch.empty_like(x)
    return lambda: copy_kernel[(x.numel() // 1024,)](x, out, BLOCK=1024)


def _softmax(small: bool) -> Launch:
    x = _random(16 if small else 8192, 4096)
    out = torch.empty_like(x)
    return lambda: softmax_kernel[(len(x),)](x, out, 4096, BLOCK=4096, num_warps=8)


def _of(workload: Workload, small: Workload) -> Prepare:
    def prepare(is_small: bool) -> Launch:
        chosen = small if is_small else workload
        inputs = chosen.inputs(str(torch.get_default_device()))
        return lambda: chosen.launch(inputs)

    return prepare


def matmul(size: int, group: int = 8, tile: tuple[int, int, int] = (128, 128, 64)) -> Prepare:
    """group: rows of tiles that programs in sequence share."""

    def grouped(size: int) -> Workload:
        plain = kernels.matmul(size, tile, 4)
        return replace(plain, constexprs={**plain.constexprs, "GROUP_M": min(group, size // tile[0])})

    return _of(grouped(size), grouped(4 * tile[0]))


def _float32_dot(small: bool) -> Launch:
    m = 128 if small else 2048
    a, b = (_random(m, m) for _ in range(2))
    c = torch.empty_like(a)
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    return lambda: float32_dot_kernel[(m // 64, m // 64)](a, b, c, m, m, **tiles, num_warps=4)


def _indexed(kernel: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (14 if small else 24)
        x = _random(n)
        index = torch.randperm(n).to(torch.int32)
        out = torch.empty_like(x)
        return lambda: kernel[(n // 1024,)](x, index, out, BLOCK=1024)

    return prepare


def _division(small: bool) -> Launch:
    n = 1 << (14 if small else 24)
    x = _random(n + 3 * 4096)
    out = torch.empty(n)
    return lambda: division_kernel[(n // 1024,)](x, out, 4097, BLOCK=1024)


def _float64(small: bool) -> Launch:
    n = 1 << (14 if small else 24)
    x = _random(n)
    out = torch.empty_like(x)
    return lambda: float64_kernel[(n // 1024,)](x, out, BLOCK=1024)


def _atomics(small: bool) -> Launch:
    steps, programs = 16, 8 if small else 1056
    x = _random(steps * 256)
    counter = torch.zeros(1)
    out = torch.empty(programs)
    return lambda: atomics_kernel[(programs,)](x, counter, out, steps, EACH=True, BLOCK=256)


def _transpose(shared: Callable[[], Any]) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs = 8 if small else 1056
        x = _random(64, 64)
        out = torch.empty(programs, 64, 64)
        return lambda: transpose_kernel[(programs,)](x, out, 32, SIZE=64, SHARED=shared(), num_warps=4)

    return prepare


def _spills(small: bool) -> Launch:
    programs = 4 if small else 132
    x, y = (_random(8192) for _ in range(2))
    out = torch.empty(programs, 8192)
    return lambda: spills_kernel[(programs,)](x, y, out, 200, BLOCK=8192, num_warps=4, maxnreg=64)


CASES: Final[dict[str, Prepare]] = {
    "copy": _copy,
    "softmax": _softmax,
    "matmul": matmul(4096),
    "matmul, ungrouped": matmul(8192, group=64),
    "matmul, 32 x 32": matmul(2048, tile=(32, 32, 32)),
    "float32 dot": _float32_dot,
    "gather": _indexed(gather_kernel),
    "scatter": _indexed(scatter_kernel),
    "64-bit division": _division,
    "float64": _float64,
    "atomics": _atomics,
    "transpose, unswizzled": _transpose(unswizzled),
    "transpose, swizzled": _transpose(swizzled),
    "spills": _spills,
    "TMA matmul": _of(
        kernels.matmul_tma(4096, (128, 128, 64), 8, programs=132),
        kernels.matmul_tma(512, (128, 128, 64), 8, programs=132),
    ),
    "warp-specialised": _of(
        kernels.matmul_ws(4096, (128, 128, 64), 4), kernels.matmul_ws(512, (128, 128, 64), 4)
    ),
    "attention": _of(kernels.attention(64, 4096), kernels.attention(1, 256)),
}


def _library_attention(small: bool) -> Launch:
    """fla-core's softmax attention, causal."""
    run = function("fla.ops.attn.parallel_attn")
    batch, length, heads = (1, 128, 2) if small else (4, 4096, 16)
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, length, heads, 64).bfloat16() for _ in range(3))
    return lambda: run(q, k, v)


PAGES: Final[dict[str, Prepare]] = {
    "gather": CASES["gather"],
    "scatter": CASES["scatter"],
    "division": CASES["64-bit division"],
    "float64": CASES["float64"],
    "float32-dot": CASES["float32 dot"],
    "matmul-grouped": matmul(8192),
    "matmul-ungrouped": CASES["matmul, ungrouped"],
    "column": CASES["transpose, unswizzled"],
    "column-swizzled": CASES["transpose, swizzled"],
    "library-attention": _library_attention,
}
"""By name of its trace: what docs/evidence.md shows."""
