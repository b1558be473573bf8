"""Findings of recorded programs: their order, and how long loads are waited for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from profscope.analysis.devices import copy_latency_cycles, load_latency_cycles
from profscope.emulator.costs import COSTS, Cost
from profscope.profiles import Profile
from tests.support.sessions import session
from viewer.findings import make_findings, render_findings
from viewer.select import Selection

# ruff: noqa: N803


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.load(x_ptr + i + at)
    tl.store(out_ptr + at, total)


@triton.jit
def copy_one_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def one_line_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.load(x_ptr + i * BLOCK + at) + tl.load(y_ptr + i * BLOCK + at)
    tl.store(out_ptr + at, total)


@triton.jit
def two_lines_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        x = tl.load(x_ptr + i * BLOCK + at)
        y = tl.load(y_ptr + i * BLOCK + at)
        total += x + y
    tl.store(out_ptr + at, total)


def recorded(kernel: Any, *args: Any, grid: int = 1, instrument: str = "heavy") -> Profile:
    x, out = torch.randn(32 * 64), torch.zeros(32 * 64)
    with session(instrument=instrument) as prof:
        pointers = [x] * (len(kernel.arg_names) - 2 - len(args)) + [out]
        kernel[(grid,)](*pointers, *args, BLOCK=32, num_warps=1)
    return prof.profile


@pytest.fixture(scope="module")
def program() -> Profile:
    """One kernel with most of the time, and one of a single CTA."""
    x, out = torch.randn(32 * 40), torch.zeros(32 * 32)
    with session(instrument="heavy") as prof:
        sum_kernel[(32,)](x, out, 40, BLOCK=32, num_warps=4)
        copy_one_kernel[(1,)](x, out, num_warps=1)
    return prof.profile


def test_findings_stand_by_what_they_save_of_the_program(program: Profile) -> None:
    findings = program.findings()
    time = (program.launches["end_ns"] - program.launches["start_ns"]).set_axis(program.launches["kernel"])
    share = time / time.sum()
    assert findings["gain_pct"].idxmax() == 1, "that of the small kernel"
    assert findings["kernel"].iloc[0] == "sum_kernel"
    assert findings["program_pct"].is_monotonic_decreasing
    expected = findings["gain_pct"] * findings["kernel"].map(share)
    assert findings["program_pct"].tolist() == pytest.approx(expected.tolist(), rel=0.02)


def test_view_and_report_show_them_so(program: Profile) -> None:
    findings = program.findings()
    rows = make_findings(program, Selection())
    assert [row.kernel for row in rows] == findings["kernel"].tolist()
    lines = [line.plain for line in render_findings(rows, (), 200)]
    assert lines[1].startswith(f"{findings['program_pct'][0]:3.0f}%  {findings['finding'][0]} ")
    told = [
        (each["kernel"], row["finding"], row["program_pct"])
        for each in program.report()["kernels"]
        for row in each["findings"]
    ]
    assert told[0] == (
        "sum_kernel",
        findings["finding"][0],
        pytest.approx(findings["program_pct"][0], rel=1e-3),
    )


@pytest.mark.parametrize("instrument", ["default", "heavy"])
def test_loads_on_one_line_are_waited_for_as_on_two(instrument: str) -> None:
    said = []
    for kernel in (one_line_kernel, two_lines_kernel):
        findings = recorded(kernel, 16, instrument=instrument).findings().set_index("finding")
        evidence = findings.loc["exposed-load", "evidence"].split("waiting for the data, ")[1]
        said.append(evidence.rpartition("; ")[0])  # what follows names the lines
    assert said[0] == said[1] != ""


def test_loads_that_nothing_hides_wait_for_the_latency_of_the_emulator() -> None:
    assert load_latency_cycles(emulated=True) == COSTS[Cost.GLOBAL_LOAD].latency
    assert copy_latency_cycles(emulated=True) == COSTS[Cost.ASYNC_COPY].latency
    evidence = recorded(sum_kernel, 16).findings().set_index("finding").loc["exposed-load", "evidence"]
    assert f"; 0 % of a memory latency ({COSTS[Cost.GLOBAL_LOAD].latency} cycles) is hidden" in evidence
