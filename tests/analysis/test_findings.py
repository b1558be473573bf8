"""Findings of kernels that the emulator ran: the corpus' faults, and kernels without one."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import triton
import triton.language as tl

from bench.diagnose import RECORDINGS, Judged, cases, emulated
from profscope.analysis.rules.diagnose import RULES
from profscope.profiles import Profile, load
from tests.kernels.planted import layer_norm_kernel, one_pass_kernel
from tests.support.quick import quick
from tests.support.sessions import session

_FAULTS = {
    "field of a structure": "uncoalesced-load",
    "member of a record": "uncoalesced-store",
    "upsampled by division": "index-arithmetic",
    "squares turned by a gather": "bank-conflict",
    "norm in float64": "fp64-arithmetic",
    "columns summed each step": "serial-reduction",
    "decode by broadcast": "no-tensor-cores",
    "predicted kernels loaded for each colour": "redundant-load",
}
_FAULTLESS = (
    "good copy", "good matmul, bfloat16", "good layer norm", "good sum", "good softmax",
)  # fmt: skip
_FEW = (
    "field of a structure", "upsampled by division", "squares turned by a gather", "norm in float64",
    "columns summed each step", "good copy", "good layer norm", "depthwise bytes in float32",
)  # fmt: skip


@cache
def judged(name: str) -> Judged:
    return emulated(name)


@pytest.mark.parametrize("name", quick(_FAULTS, _FEW))
def test_the_emulators_evidence_names_cause_and_line(name: str) -> None:
    found = judged(name)
    assert (found.found[0][0], found.right_line) == (_FAULTS[name], True), found.found


@pytest.mark.parametrize("name", quick(_FAULTLESS, _FEW))
def test_a_kernel_without_a_fault_has_no_finding(name: str) -> None:
    assert not judged(name).false, judged(name).found


@triton.jit
def strided_kernel(x_ptr, out_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * STRIDE)
    tl.store(out_ptr + at, x)


def strided(stride: int) -> Profile:
    torch = pytest.importorskip("torch")
    x, out = torch.ones(16 * 1024 * stride), torch.empty(16 * 1024)
    with session() as prof:
        strided_kernel[(16,)](x, out, STRIDE=stride, BLOCK=1024)
    return prof.profile


def test_a_stride_of_8_is_found_at_its_load() -> None:
    apart, beside = strided(8).findings(), strided(1).findings()
    top = apart.iloc[0]
    assert (top["finding"], top["confidence"]) == ("uncoalesced-load", "high")
    lines = Path(__file__).read_text().splitlines()
    assert "tl.load(x_ptr" in lines[top["line"] - 1]
    assert apart["gain_pct"].isna().all(), "cycles of a model are no gain"
    assert "8 times the sectors" in top["evidence"]
    assert top["evidence"].endswith("(cycles of the emulator's cost model)")
    assert "uncoalesced-load" not in set(beside["finding"])


@triton.jit
def masked_add_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + x, mask=at < n)


def added(grids: list[int], short: int = 0) -> Profile:
    torch = pytest.importorskip("torch")
    size = max(grids) * 256
    x, out = torch.ones(size), torch.empty(size)
    with session() as prof:
        for grid in grids:
            masked_add_kernel[(grid,)](x, out, grid * 256 - short, BLOCK=256)
    return prof.profile


def test_what_takes_nothing_away_is_no_finding() -> None:
    """One lane of 131,072 is masked off, and 512 CTAs fill two waves."""
    assert added([512], short=1).findings().empty


def test_a_finding_is_of_the_grid_that_takes_most_of_the_time() -> None:
    small_first, small_last = added([4, 256, 256]), added([256, 256, 4])
    assert small_first.findings().empty
    assert small_last.findings().empty
    assert added([4]).findings()["finding"].tolist() == ["idle-sms"]


@triton.jit
def hoisted_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(steps):
        total += tl.load(x_ptr + at) * step
    tl.store(out_ptr + at, total)


def test_a_load_that_the_compiler_takes_out_of_a_loop_is_in_none() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(16 * 1024)
    with session() as prof:
        hoisted_kernel[(16,)](x, torch.empty_like(x), 16, BLOCK=1024)
    assert set(prof.profile.findings()["finding"]).isdisjoint(("exposed-latency", "few-stages"))


@triton.jit
def mirrored_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(steps):
        for column in range(steps):
            a = tl.load(x_ptr + (row * steps + column) * BLOCK + at)
            b = tl.load(x_ptr + (column * steps + row) * BLOCK + at)
            total += a * b
    tl.store(out_ptr + at, total)


def test_counters_of_nested_loops_are_not_one_address() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(6 * 6 * 512)
    with session() as prof:
        mirrored_kernel[(1,)](x, torch.empty(512), 6, BLOCK=512)
    assert not prof.profile.findings()["evidence"].str.contains("already loaded").any()


def test_a_load_of_what_another_loop_has_loaded() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.rand(16, 1024), torch.empty(16, 1024)
    with session() as prof:
        layer_norm_kernel[(16,)](x, y, 1024, 1e-5, BLOCK=256)
    found = prof.profile.findings().query("finding == 'redundant-load'")
    first, second, third = marked_lines(layer_norm_kernel, "tl.load(x_ptr")
    assert set(found["line"]) == {second, third}
    assert found["evidence"].str.contains(f"line {first} already loaded").all()
    with session() as prof:
        one_pass_kernel[(16,)](x, y, 1024, 1e-5, BLOCK=1024)
    assert "redundant-load" not in set(prof.profile.findings()["finding"])


def marked_lines(kernel: triton.JITFunction, text: str) -> list[int]:
    source, first = inspect.getsourcelines(kernel.fn)
    return [first + at for at, line in enumerate(source) if text in line]


def test_each_missing_witness_is_one_line() -> None:
    (said,) = strided(1).findings().attrs["not_measured"]
    assert said.startswith("strided_kernel: hardware counters: ")


def test_partitions_without_counters_are_judged_by_their_spans() -> None:
    """Recorded on an H200, a few of the CTAs."""
    faulty = load(Path(__file__).parents[1] / "data" / "findings" / "starving-partition.json.gz")
    top = faulty.findings().iloc[0]
    assert top["finding"] == "partition-starved"
    said = faulty.findings().attrs["not_measured"]
    assert any("waits: session(evidence=True) takes PC samples" in text for text in said)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
@pytest.mark.parametrize("cause", ["small-mma", "mma-not-overlapped"])
def test_another_architecture_hears_nothing_of_hoppers(cause: str, arch: str) -> None:
    """Recorded on an H200, and relabelled."""
    recorded = load(RECORDINGS / next(case["file"] for case in cases() if cause in case["causes"]))
    assert recorded.findings().iloc[0]["finding"] == cause
    metadata = {**recorded.metadata, "device": {**recorded.metadata["device"], "arch": arch}}
    found = Profile.of(replace(recorded.tables, metadata=metadata)).findings()
    assert cause not in set(found["finding"])
    assert not found[["evidence", "advice"]].sum().str.contains("wgmma").any()
    assert any(cause in text for text in found.attrs["not_measured"])


def test_every_finding_is_documented() -> None:
    names = {rule.name for rule in RULES} | {"uncoalesced-store", "few-stages"}
    names |= {cause for case in cases() for cause in case["causes"]}
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
    assert {name for name in names if f"`{name}`" not in page} == set()
