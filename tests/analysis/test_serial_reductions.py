"""A reduction in a loop could come behind it only if each step adds its result to what the loop carries."""

from __future__ import annotations

import inspect

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.dataflow import early_reductions
from profscope.analysis.diagnosis.facts import facts_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.demo.kernels import softmax
from profscope.profiles import Profile
from tests.support.sessions import session

torch = pytest.importorskip("torch")


@triton.jit
def row_sums_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):  # noqa: N803
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        tl.store(out_ptr + row, tl.sum(x, 0))


@triton.jit
def chunked_softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Rows one after the other; the peak and the sum of each are reduced in each of its steps."""
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        peak, total = -float("inf"), 0.0
        for start in range(0, columns, BLOCK):
            x = tl.load(x_ptr + row * columns + start + at)
            higher = tl.maximum(peak, tl.max(x, 0))  # early
            total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), 0)  # early
            peak = higher
        for start in range(0, columns, BLOCK):
            x = tl.load(x_ptr + row * columns + start + at)
            tl.store(out_ptr + row * columns + start + at, tl.exp(x - peak) / total)


@triton.jit
def centred_rows_kernel(x_ptr, out_ptr, total_ptr, rows, BLOCK: tl.constexpr):  # noqa: N803
    """The mean is carried on, but each row needs its own first."""
    total = 0.0
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        mean = tl.sum(x, 0) / BLOCK
        total += mean
        tl.store(out_ptr + row * BLOCK + tl.arange(0, BLOCK), x - mean)
    tl.store(total_ptr + tl.program_id(0), total)


def reduced_early(profile: Profile) -> set[int]:
    (judged,) = kernel_analyses(profile.tables)
    assert isinstance(judged, KernelAnalysis)
    known = facts_of(judged)
    assert known is not None
    assert "tt.reduce" in known.ttgir
    return early_reductions([op for op, _, _ in known.located_ops])


def test_rows_one_after_the_other_need_their_reductions() -> None:
    x = torch.rand(16, 512)
    with session() as prof:
        softmax(x, 4)
    assert reduced_early(prof.profile) == set()
    with session() as prof:
        row_sums_kernel[(4,)](x, torch.empty(16), 16, BLOCK=512)
    assert reduced_early(prof.profile) == set()
    with session() as prof:
        centred_rows_kernel[(4,)](x, torch.empty_like(x), torch.empty(4), 16, BLOCK=512)
    assert reduced_early(prof.profile) == set()


def test_sums_that_a_loop_only_carries_on_could_come_behind_it() -> None:
    x = torch.rand(16, 512)
    with session() as prof:
        chunked_softmax_kernel[(4,)](x, torch.empty_like(x), 16, 512, BLOCK=128)
    source, first = inspect.getsourcelines(chunked_softmax_kernel.fn)
    early = {first + at for at, line in enumerate(source) if "# early" in line}
    assert reduced_early(prof.profile) == early
