"""Each number that a cause compares with matters: with half of it or twice as much, findings are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from bench.diagnose import RECORDINGS, cases
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.diagnose import diagnose
from profscope.analysis.diagnosis.facts import KernelFacts, facts_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.profiles import Profile, load
from tests.support.captured import captured

_CASES = {case["name"]: case for case in cases() if case["half"] == "open"}
_NAMES = [name for name in vars(thresholds) if name.isupper() and name[0] != "_" and name != "BOUND_PCT"]


@cache
def of_case(name: str) -> KernelFacts:
    return facts_in(load(RECORDINGS / _CASES[name]["file"]))


def facts_in(profile: Profile) -> KernelFacts:
    (kernel,) = kernel_analyses(profile.tables)
    assert isinstance(kernel, KernelAnalysis)
    facts = facts_of(kernel)
    assert facts is not None
    return facts


def with_columns(columns: int) -> KernelFacts:
    """A product by wgmma of so many columns."""
    facts = of_case("matmul by 2 warps")
    product = facts.counts["op"] == "HMMA"
    opcodes = facts.counts["opcode"].astype("str").mask(product, f"HGMMA.64x{columns}x16.F32")
    ops = facts.counts["op"].astype("str").mask(product, "HGMMA")
    return replace(facts, counts=facts.counts.assign(opcode=opcodes, op=ops))


def with_reread(times: float) -> KernelFacts:
    """A product whose loads ask for so many times what comes from DRAM."""
    facts = of_case("matmul by 2 warps")
    asked = 32 * facts.sectors("LDG", "LDGSTS")
    return replace(facts, counters=dict(facts.counters) | {"dram_read": asked / times})


def with_samples(count: int) -> KernelFacts:
    profile = load(RECORDINGS / _CASES["chain of rows"]["file"])
    samples = profile.tables.samples
    most = samples.sort_values("samples", ascending=False).head(1)
    return facts_in(Profile.of(replace(profile.tables, samples=most.assign(samples=count))))


def with_l2(used: float) -> KernelFacts:
    """Waits for loads outside of loops."""
    facts = of_case("good add")
    return replace(facts, used=dict(facts.used) | {"l2": used, "dram": used})


def with_warps(warps: int, loads: float) -> KernelFacts:
    """A CTA of so many warps with a reduction, each of which runs so many loads."""
    facts = of_case("short row of 32 warps")
    is_load = facts.counts["op"].isin(["LDG", "LDGSTS"])
    executed = float(facts.counts.loc[is_load, "executed"].sum())
    return replace(facts, warps=warps, grid=round(executed / warps / loads))


def case(name: str) -> Callable[[], KernelFacts]:
    return lambda: of_case(name)


def partitions() -> KernelFacts:
    return facts_in(captured("matmul_ws-heavy-0"))


_IF_HALVED: dict[str, Callable[[], KernelFacts]] = {
    "SCHEDULERS": case("forest by 132 programs"),
    "VECTOR_BYTES": case("mask of an odd length"),
    "WGMMA_COLUMNS": lambda: with_columns(32),
    "BOUND": lambda: with_l2(0.4),
    "FEWEST_SAMPLES": lambda: with_samples(150),
    "NOISE_PCT": case("decode by broadcast"),
    "ATTAINABLE_DRAM": case("gelu of rows by 32 warps"),
    "ATTAINABLE": case("matmul of 1 stage"),
    "NEAR_ROOF": case("norm in float64"),
    "BUSY": case("good layer norm"),
    "MUCH": case("good histogram"),
    "EXCESS": case("member of a record"),
    "REREAD": lambda: with_reread(2),
    "UNEVEN": case("good histogram"),
    "MANY_WARPS": case("norm in float64"),
    "FEW_LOADS": lambda: with_warps(32, 3),
    "CTA_START_CYCLES": case("CTAs of one short row"),
    "PASSED_CYCLES": partitions,
}
_IF_DOUBLED: dict[str, Callable[[], KernelFacts]] = {
    "SCHEDULERS": case("matmul of 1 stage"),
    "VECTOR_BYTES": case("softmax of columns"),
    "WGMMA_COLUMNS": lambda: with_columns(64),
    "BOUND": case("good layer norm"),
    "FEWEST_SAMPLES": lambda: with_samples(300),
    "NOISE_PCT": case("best logit each step"),
    "ATTAINABLE_DRAM": case("image off by a byte"),
    "ATTAINABLE": case("triangular matvec"),
    "NEAR_ROOF": case("good TMA matmul"),
    "BUSY": case("phases of any size"),
    "MUCH": case("best logit each step"),
    "EXCESS": case("image off by a byte"),
    "REREAD": lambda: with_reread(4),
    "UNEVEN": case("gelu of rows by 32 warps"),
    "MANY_WARPS": lambda: with_warps(16, 2),
    "FEW_LOADS": lambda: with_warps(32, 6),
    "CTA_START_CYCLES": case("bytes one by one"),
    "PASSED_CYCLES": partitions,
}


def found(facts: KernelFacts) -> list[tuple[str, int, float]]:
    return [(each.finding, each.line, round(each.gain.expected, 1)) for each in diagnose(facts)]


def test_there_are_at_most_20_and_each_is_tried() -> None:
    assert len(_NAMES) <= 20
    assert set(_IF_HALVED) == set(_IF_DOUBLED) == set(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_value_finds_something_else(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (_IF_HALVED if factor < 1 else _IF_DOUBLED)[name]
    before = found(made())
    monkeypatch.setattr(thresholds, name, factor * getattr(thresholds, name))
    assert found(made()) != before
