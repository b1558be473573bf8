"""Each number that a cause compares with matters: with half of it or twice as much, findings are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.diagnose import RECORDINGS, cases
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.diagnose import diagnose
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.profiles import load
from tests.support.captured import captured
from tests.support.kernel_facts import facts_in
from tests.support.quick import quick

_CASES = {case["name"]: case for case in cases() if case["half"] == "open"}
_NAMES = [name for name in vars(thresholds) if name.isupper() and name[0] != "_" and name != "BOUND_PCT"]


@cache
def of_case(name: str) -> KernelFacts:
    return facts_in(load(RECORDINGS / _CASES[name]["file"]).tables)


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
    return facts_in(replace(profile.tables, samples=most.assign(samples=count)))


def with_l2(used: float) -> KernelFacts:
    """A product whose tiles have a short side, with so much to do for L2."""
    facts = of_case("matmul by 2 warps")
    return replace(facts, used=dict(facts.used) | {"l2": used, "dram": used, "tensor": 0.1})


def with_spread(share: float) -> KernelFacts:
    """CTAs of several waves whose times are apart by so much of their mean, on either side."""
    facts = of_case("joined buckets by a program each")
    half = np.full(len(facts.cta_cycles) // 2, share)
    return replace(facts, cta_cycles=1e5 * (1 + np.concatenate([half, -half])))


def with_waits(share: float) -> KernelFacts:
    """Waits for loads in a loop, which are that part of the samples."""
    facts = of_case("chain of rows")
    waits = facts.samples["stall"] == "long_scoreboard"
    others = int(facts.samples.loc[~waits, "samples"].sum())
    scale = others * share / (1 - share) / int(facts.samples.loc[waits, "samples"].sum())
    scaled = (facts.samples["samples"] * scale).round().astype("int64").where(waits, facts.samples["samples"])
    return replace(facts, samples=facts.samples.assign(samples=scaled))


def with_queue(line: int) -> KernelFacts:
    """All wait for the queue that takes the narrow accesses at a line, and L2 alone is busy."""
    facts = of_case("bytes one by one")
    waiting = facts.samples.assign(stall="lg_throttle", blamed_line=line)
    return replace(facts, samples=waiting, used={"l2": 0.9})


def with_tensor(used: float) -> KernelFacts:
    """A product whose tiles have a short side, with so much to do for the tensor cores."""
    facts = of_case("matmul by 2 warps")
    return replace(facts, used=dict(facts.used) | {"tensor": used})


def case(name: str) -> Callable[[], KernelFacts]:
    return lambda: of_case(name)


def partitions() -> KernelFacts:
    return facts_in(captured("matmul_ws-heavy-0").tables)


_IF_HALVED: dict[str, Callable[[], KernelFacts]] = {
    "ATTAINABLE_DRAM": case("gelu of rows by 32 warps"),
    "SCHEDULERS": case("farthest points by 32 warps"),
    "VECTOR_BYTES": case("mask of an odd length"),
    "LINE_SECTORS": lambda: with_queue(91),
    "IN_FLIGHT": case("bags of rows by lone warps"),
    "TRIANGLE": case("window over all keys"),
    "TILE_SIDE": case("matmul by 2 warps"),
    "WGMMA_SIDE": lambda: with_columns(32),
    "BOUND": lambda: with_l2(0.4),
    "FEWEST_SAMPLES": lambda: with_samples(150),
    "NOISE_PCT": case("decode by broadcast"),
    "ATTAINABLE": case("matmul of 1 stage"),
    "NEAR_ROOF": case("norm in float64"),
    "MUCH": lambda: with_waits(0.1),
    "EXCESS": case("decode by broadcast"),
    "REREAD": lambda: with_reread(4),
    "UNEVEN": lambda: with_spread(0.25),
    "CTA_START_CYCLES": case("CTAs of one short row"),
    "LAUNCH_US": case("rays of a picture's rows by one program"),
    "PASSED_CYCLES": partitions,
}
_IF_DOUBLED: dict[str, Callable[[], KernelFacts]] = {
    "ATTAINABLE_DRAM": case("image off by a byte"),
    "SCHEDULERS": case("farthest points by 32 warps"),
    "VECTOR_BYTES": case("field of a structure"),
    "LINE_SECTORS": lambda: with_queue(91),
    "IN_FLIGHT": case("bags of rows by lone warps"),
    "TRIANGLE": case("window over all keys"),
    "TILE_SIDE": lambda: with_tensor(0.1),
    "WGMMA_SIDE": lambda: with_columns(64),
    "BOUND": case("squares turned by a gather"),
    "FEWEST_SAMPLES": lambda: with_samples(300),
    "NOISE_PCT": case("best logit each step"),
    "ATTAINABLE": case("triangular matvec"),
    "NEAR_ROOF": case("matmul by 2 warps"),
    "MUCH": case("best logit each step"),
    "EXCESS": case("image off by a byte"),
    "REREAD": lambda: with_reread(6),
    "UNEVEN": lambda: with_spread(0.5),
    "CTA_START_CYCLES": case("bytes one by one"),
    "LAUNCH_US": case("rays of a picture's rows by one program"),
    "PASSED_CYCLES": partitions,
}


def found(facts: KernelFacts) -> list[tuple[str, int, list[float]]]:
    """The findings, with what they bring and the bounds of that."""
    return [(each.finding, each.line, [round(pct, 1) for pct in each.gain[:3]]) for each in diagnose(facts)]


def test_there_are_at_most_20_and_each_is_tried() -> None:
    assert len(_NAMES) <= 20
    assert set(_IF_HALVED) == set(_IF_DOUBLED) == set(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("factor", quick([0.5, 2.0], [0.5]))
def test_another_value_finds_something_else(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (_IF_HALVED if factor < 1 else _IF_DOUBLED)[name]
    before = found(made())
    monkeypatch.setattr(thresholds, name, factor * getattr(thresholds, name))
    assert found(made()) != before
