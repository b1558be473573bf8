"""A program's launches on a real device: timed without the host, copied in its stream, captured or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import triton
import triton.language as tl

from profscope.device.backend import select
from profscope.tuning.program_launches import ProgramLaunches


@triton.jit
def increased(x_ptr, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


@contextlib.contextmanager
def program() -> Iterator[ProgramLaunches]:
    with select("gpu") as machine:
        launches = ProgramLaunches(None, 1024, machine)
        with launches.watched():
            yield launches


def test_a_launch_may_be_captured() -> None:
    x = torch.zeros(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with program() as launches:
        increased[(1,)](x, BLOCK=1024)
        with torch.cuda.graph(graph):
            increased[(1,)](x, BLOCK=1024)
        graph.replay()
    torch.cuda.synchronize()
    assert (x == 2).all()
    kept = launches.biggest()
    assert kept.contents is not None
    kept.contents.reset()
    assert (x == 0).all()
    with program() as launches, torch.cuda.graph(torch.cuda.CUDAGraph()):
        increased[(1,)](x, BLOCK=1024)
    assert "captured into a CUDA graph" in launches.biggest().note
