"""A program's launches on a real device: timed without the host, copied in its stream, captured or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.device.backend import select
from profscope.tuning.program_launches import ProgramLaunches
from profscope.tuning.search import explained

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@triton.jit
def summed(lengths_ptr, x_ptr, out_ptr):
    total = tl.zeros((1024,), tl.float32)
    for step in range(tl.load(lengths_ptr)):
        total += tl.load(x_ptr + step % 16 * 1024 + tl.arange(0, 1024))
    tl.store(out_ptr + tl.arange(0, 1024), total)


@triton.jit
def increased(x_ptr, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


def of_length(length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lengths = torch.full((1,), length, dtype=torch.int32, device="cuda")
    return lengths, torch.zeros(16, 1024, device="cuda"), torch.zeros(1024, device="cuda")


@contextlib.contextmanager
def program() -> Iterator[ProgramLaunches]:
    with select("gpu") as machine:
        launches = ProgramLaunches(None, 1024, machine)
        with launches.watched():
            yield launches


@pytest.mark.filterwarnings("ignore::profscope.errors.DistrustWarning")  # a lone warp, slowed down
def test_a_launch_is_explained_with_the_contents_that_it_had() -> None:
    arguments = of_length(100_000)  # each step loads: some 10 ms
    with program() as launches:
        summed[(1,)](*arguments)
        arguments[0].zero_()
    kept = launches.biggest()
    found = explained(kept.launch, {}, 60.0, "gpu", kept.contents, kept.note)
    assert arguments[0].item() == 0
    assert found.tries["us"].iloc[0] > 1000


def test_one_long_launch_outweighs_many_short_ones() -> None:
    """Compiling takes longer than each of them, and is no time of a launch."""
    x = torch.zeros(1024, device="cuda")
    with program() as launches:
        for _ in range(100):
            increased[(1,)](x, BLOCK=1024)
        summed[(1,)](*of_length(100_000))
    assert launches.biggest().launch.name == "summed"
    assert (x == 100).all()
    with program() as launches:
        summed[(1,)](*of_length(1))
        for _ in range(100):
            increased[(1,)](x, BLOCK=1024)
    assert launches.biggest().launch.name == "increased"


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


def test_storages_that_overlap_are_restored() -> None:
    """What comes by DLPack has a storage of its own."""
    x = torch.zeros(1 << 16, device="cuda")
    part = torch.from_dlpack(x[1024:2048])
    assert part.untyped_storage().data_ptr() == x[1024:].data_ptr()
    found = profscope.explain(
        shared, part, x, grid=lambda given: ((1 << 16) // given["BLOCK"],), BLOCK=256,
        vary={"BLOCK": [1024]}, backend="gpu",
    )  # fmt: skip
    assert not x.any()
    assert set(found.tries.loc[found.tries["failed"] == "", "same_results"]) == {"bit-equal"}


@triton.jit
def shared(part_ptr, x_ptr, BLOCK: tl.constexpr):  # noqa: N803
    """Adds one to all, by the pointer to all."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)
