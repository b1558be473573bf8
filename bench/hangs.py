"""Kernels that hang, and what a session with `hang_s=` says of them; what its marks cost other kernels.

    python -m bench.hangs [NAME ...]
    python -m bench.hangs --cost [--rows REGEX]

Each kernel runs in a process of its own, which releases it once it has been reported, or ends. Without a GPU
those run that the emulator can.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

import profscope
from bench.kernels import surroundings, workloads
from bench.timing import device_us, interleave
from bench.variants import Variant
from tests.kernels import hanging

__all__ = ["main"]

_HANG_S: Final = 2.0
_LIMIT_S: Final = 120.0  # of a process
_BLOCK: Final = 256
Release = Callable[[], object]


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _words(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=_device())


def _set(words: torch.Tensor, at: int) -> Release:
    """Sets a word while a kernel runs: on a stream of its own."""
    if not torch.cuda.is_available():
        return lambda: words.__setitem__(at, 1)
    side, one = torch.cuda.Stream(), torch.ones(1, dtype=torch.int32).pin_memory()

    def release() -> None:
        with torch.cuda.stream(side):
            words[at : at + 1].copy_(one, non_blocking=True)

    return release


def _spin() -> Release:
    ctas = 264 if torch.cuda.is_available() else 12
    x, words = torch.ones(ctas * _BLOCK, device=_device()), _words(0, 0, 0, 0)
    release = _set(words, 2)
    hanging.spin_kernel[(ctas,)](x, words, 6, 5, BLOCK=_BLOCK)
    return release


def _counter() -> Release:
    x, counters = torch.ones(64 * _BLOCK, device=_device()), _words(0, 0)
    for _ in range(2):  # the counter of tiles is not reset, that of tiles done is
        counters[1] = 0
        hanging.tiles_kernel[(8,)](x, counters, counters[1:], 64, BLOCK=_BLOCK)
    return lambda: None


def _barrier() -> Release:
    hanging.barrier_kernel[(1,)](torch.ones(_BLOCK, device=_device()), BLOCK=_BLOCK)
    return lambda: None


def _grid() -> Release:
    ctas = 132 * 40
    x, words = torch.ones(ctas * _BLOCK, device=_device()), _words(0)
    hanging.grid_barrier_kernel[(ctas,)](x, words, BLOCK=_BLOCK)
    return lambda: None


def _slow() -> Release:
    steps, inner = (1_000_000, 400) if torch.cuda.is_available() else (60, 40)
    x = torch.ones(132 * _BLOCK, device=_device())
    hanging.slow_kernel[(132 if torch.cuda.is_available() else 1,)](x, steps, inner, BLOCK=_BLOCK)
    return lambda: None


def _late() -> Release:
    """The stream of a good kernel waits for an event behind one that hangs."""
    release = _spin()
    event, other = torch.cuda.current_stream().record_event(), torch.cuda.Stream()
    other.wait_event(event)
    with torch.cuda.stream(other):
        hanging.slow_kernel[(1,)](torch.ones(_BLOCK, device="cuda"), 1, 1, BLOCK=_BLOCK)
    return release


def _graph() -> Release:
    x, words = torch.ones(264 * _BLOCK, device="cuda"), _words(0, 0, 1, 0)
    hanging.spin_kernel[(264,)](x, words, 6, 5, BLOCK=_BLOCK)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        hanging.spin_kernel[(264,)](x, words, 6, 5, BLOCK=_BLOCK)
    graph.replay()
    torch.cuda.synchronize()
    release = _set(words, 2)
    words.zero_()
    graph.replay()
    return release


def _pipelined(fault: str) -> Callable[[], Release]:
    def launch() -> Release:
        from triton.experimental.gluon import language as gl
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
        a = torch.randn(16 * 64, 1024, dtype=torch.float16, device="cuda")
        b = torch.randn(1024, 64, dtype=torch.float16, device="cuda")
        out = torch.empty(16 * 64, 64, device="cuda")
        descriptors = [TensorDescriptor.from_tensor(each, [64, 64], layout) for each in (a, b)]
        hanging.pipelined_matmul_kernel[(16,)](*descriptors, out, 16, 3, fault, num_warps=4)
        if not fault:
            torch.cuda.synchronize()
            print(f"largest error {(out - a.float() @ b.float()).abs().max().item():.3f}")
        return lambda: None

    return launch


CASES: Final[Mapping[str, tuple[Callable[[], Release], bool]]] = {
    "a flag nobody sets": (_spin, True),
    "a counter never reset": (_counter, True),
    "a barrier in a branch": (_barrier, True),
    "a grid that does not fit": (_grid, False),
    "a slow kernel": (_slow, True),
    "an event that does not come": (_late, False),
    "in a CUDA graph": (_graph, False),
    "two partitions, no fault": (_pipelined(""), False),
    "two partitions, a lost arrive": (_pipelined("arrive"), False),
    "two partitions, a wrong phase": (_pipelined("phase"), False),
}
"""By name: what launches it and returns what releases it, and whether the emulator can run it."""


def _one(name: str) -> None:
    """Run a case in this process; end it without waiting for the GPU."""
    launch, _ = CASES[name]
    release: list[Release] = []

    def let_go(prof: Any) -> None:
        time.sleep(4 * _HANG_S)
        print(f"rows of prof.hangs: {len(prof.hangs)}", flush=True)
        if release:
            release[0]()
        time.sleep(1)
        os._exit(0)

    with profscope.session(hang_s=_HANG_S) as prof:
        threading.Thread(target=let_go, args=(prof,), daemon=True).start()
        release.append(launch())
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    print("ended by itself", flush=True)


def _cost(pattern: str) -> None:
    """Device time and results of kernels with marks and without."""
    device = _device()
    print(f"{'kernel':24} {'bare us':>10} {'with marks':>10} {'ratio':>6}  results")
    for workload in workloads(small=not torch.cuda.is_available()):
        if not re.search(pattern, workload.name):
            continue
        with surroundings(), profscope.session(hang_s=60) as prof:
            inputs, again = workload.inputs(device), workload.inputs(device)
            workload.launch(inputs)
            prof.pause()
            workload.launch(again)
            alike = all(
                torch.equal(a, b)
                for a, b in zip(inputs.values(), again.values(), strict=True)
                if torch.is_tensor(a)
            )

            def sample(name: str) -> Mapping[str, float]:
                (prof.resume if name == "marks" else prof.pause)()
                return {"us": device_us(lambda: workload.launch(inputs), 5)}  # noqa: B023

            variants: dict[str, Variant] = dict.fromkeys(("bare", "marks"), contextlib.nullcontext)
            cells = interleave(variants, sample, 9)["us"]
        bare, marks = (sorted(cells[name].samples) for name in ("bare", "marks"))
        ratios = sorted(b / a for a, b in zip(cells["bare"].samples, cells["marks"].samples, strict=True))
        print(
            f"{workload.name:24} {bare[len(bare) // 2]:10.1f} {marks[len(marks) // 2]:10.1f} "
            f"{ratios[len(ratios) // 2]:6.2f}  {'bit-identical' if alike else 'DIFFER'}",
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.hangs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="; ".join(CASES))
    parser.add_argument("--cost", action="store_true", help="what marks cost")
    parser.add_argument(
        "--rows", default="", metavar="REGEX", help="only kernels that it matches, with --cost"
    )
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        _one(given.one)
        return 0
    if given.cost:
        _cost(given.rows)
        return 0
    for name, (_, emulated) in CASES.items():
        if (given.names and name not in given.names) or not (emulated or torch.cuda.is_available()):
            continue
        print(f"--- {name}", flush=True)
        try:
            subprocess.run(
                [sys.executable, "-m", "bench.hangs", "--one", name], timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"did not end in {_LIMIT_S:.0f} s: killed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
