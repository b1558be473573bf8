"""A reduction in a loop could come behind it only if each step adds its result to what the loop carries."""

from __future__ import annotations

import inspect

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.dataflow import early_reductions
from profscope.analysis.diagnosis.launch_causes import scanned_by_many
from profscope.demo.kernels import softmax
from profscope.profiles import Profile
from tests.support.kernel_facts import facts_in
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


@triton.jit
def running_totals_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    total = 0.0
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x_ptr + start + tl.arange(0, BLOCK)), 0)
        tl.store(out_ptr + start // BLOCK, total)


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    total = 0.0
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x_ptr + start + tl.arange(0, BLOCK)), 0)
    tl.store(out_ptr, total)


@triton.jit
def scan_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    for row in range(rows):
        tl.store(out_ptr + row * BLOCK + at, tl.cumsum(tl.load(x_ptr + row * BLOCK + at), 0))


def reduced_early(profile: Profile) -> dict[int, bool]:
    known = facts_in(profile.tables)
    assert "tt.reduce" in known.ttgir
    return early_reductions(known.ttgir_ops)


def test_rows_one_after_the_other_need_their_reductions() -> None:
    x = torch.rand(16, 512)
    with session() as prof:
        softmax(x, 4)
    assert reduced_early(prof.profile) == {}
    with session() as prof:
        row_sums_kernel[(4,)](x, torch.empty(16), 16, BLOCK=512)
    assert reduced_early(prof.profile) == {}
    with session() as prof:
        centred_rows_kernel[(4,)](x, torch.empty_like(x), torch.empty(4), 16, BLOCK=512)
    assert reduced_early(prof.profile) == {}
    with session() as prof:
        running_totals_kernel[(1,)](x, torch.empty(16), 8192, BLOCK=512)
    assert reduced_early(prof.profile) == {}


def test_sums_that_a_loop_only_carries_on_could_come_behind_it() -> None:
    x = torch.rand(16, 512)
    with session() as prof:
        chunked_softmax_kernel[(4,)](x, torch.empty_like(x), 16, 512, BLOCK=128)
    source, first = inspect.getsourcelines(chunked_softmax_kernel.fn)
    early = {first + at for at, line in enumerate(source) if "# early" in line}
    assert reduced_early(prof.profile) == dict.fromkeys(early, False)  # the peak before has a part in a sum


def test_a_sum_of_what_no_earlier_step_has_a_part_in_is_told_apart() -> None:
    with session() as prof:
        total_kernel[(1,)](torch.rand(2048), torch.empty(1), 2048, BLOCK=512)
    assert list(reduced_early(prof.profile).values()) == [True]


@pytest.mark.parametrize(("warps", "is_found"), [(16, True), (4, False)])
def test_a_scan_of_few_elements_for_each_thread_has_too_many_warps(warps: int, is_found: bool) -> None:
    x = torch.rand(8, 512)
    with session() as prof:
        scan_kernel[(1,)](x, torch.empty_like(x), 8, BLOCK=512, num_warps=warps)
    found = [(each.finding, each.line) for each in scanned_by_many(facts_in(prof.profile.tables))]
    first = inspect.getsourcelines(scan_kernel.fn)[1]
    assert found == ([("too-many-warps", first + 1)] if is_found else [])


@triton.jit
def until_enough_kernel(x_ptr, out_ptr, enough, most, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    steps = 0
    while (tl.sum(x, 0) < enough) and (steps < most):
        x += tl.load(x_ptr + at + 1)
        steps += 1
    tl.store(out_ptr + at, x)


@pytest.mark.parametrize(("enough", "runs_once"), [(100.0, True), (3000.0, True), (9000.0, False)])
def test_a_loop_of_one_step_at_most_repeats_nothing(enough: float, runs_once: bool) -> None:
    """The sum is 2,560 at first, and 2,560 more after each step."""
    x, out = torch.full((257,), 10.0), torch.empty(256)
    with session() as prof:
        until_enough_kernel[(4,)](x, out, enough, 50, BLOCK=256)
    known = facts_in(prof.profile.tables)
    assert bool(known.lines_run_once) == runs_once
    found = set(prof.profile.findings()["finding"])
    assert not runs_once or not found & {"serial-reduction", "redundant-load"}


@triton.jit
def ragged_kernel(x_ptr, steps_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    """Each row's sum decides what is loaded next; most rows have no step."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    step, left = 0, tl.load(steps_ptr + row)
    total = 0.0
    while step < left:
        total += tl.sum(tl.load(x_ptr + step * BLOCK + at + (total > 1e9).to(tl.int32)), 0)
        step += 1
    tl.store(out_ptr + row, total)


@pytest.mark.parametrize(
    ("steps", "runs_once"), [([0] * 15 + [12], False), ([1] * 16, True), ([0] * 16, True)]
)
def test_a_loop_runs_once_if_it_does_so_in_all_programs(steps: list[int], runs_once: bool) -> None:
    with session() as prof:
        ragged_kernel[(16,)](
            torch.rand(16 * 256), torch.tensor(steps, dtype=torch.int32), torch.empty(16), BLOCK=256
        )
    assert bool(facts_in(prof.profile.tables).lines_run_once) == runs_once


@triton.jit
def rows_kernel(x_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        out = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, width, BLOCK):
            out += tl.sum(tl.load(x_ptr + row * width + start + at), 0)
        tl.store(out_ptr + row * BLOCK + at, out + tl.sum(out, 0))


@pytest.mark.parametrize(("programs", "runs_once"), [(16, True), (4, False)])
def test_a_for_loop_over_the_rows_of_a_program_may_run_once(programs: int, runs_once: bool) -> None:
    """It has rows / programs steps; the loop in it has eight, in any case."""
    x, out = torch.rand(16, 1024), torch.empty(16, 128)
    with session() as prof:
        rows_kernel[(programs,)](x, out, 16, 1024, BLOCK=128)
    known = facts_in(prof.profile.tables)
    first = inspect.getsourcelines(rows_kernel.fn)[1]
    outer, inner = first + 7, first + 6
    assert (outer in known.lines_run_once) == runs_once
    assert inner not in known.lines_run_once


@pytest.mark.parametrize("warps", [1, 4])
def test_lanes_of_one_warp_exchange_values_and_warps_meet(warps: int) -> None:
    x, out = torch.rand(16, 1024), torch.empty(16, 128)
    with session() as prof:
        rows_kernel[(16,)](x, out, 16, 1024, BLOCK=128, num_warps=warps)
    (found,) = prof.profile.findings().query("finding == 'serial-reduction'").to_dict("records")
    assert found["evidence"].startswith("warps meet" if warps > 1 else "lanes of the warp exchange")
