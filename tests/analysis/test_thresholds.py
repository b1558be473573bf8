"""Each number that a cause compares with matters: with half of it or twice as much, findings are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bench.diagnose import RECORDINGS, cases
from profscope.analysis.cause import Finding
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.diagnose import diagnose
from profscope.analysis.rules.kernel import Kernel
from profscope.profiles import load
from tests.support.captured import captured
from tests.support.kernel_of import kernel_in
from tests.support.quick import quick

_CASES = {case["name"]: case for case in cases()}
_NAMES = [name for name in vars(thresholds) if name.isupper() and name[0] != "_" and name != "BOUND_PCT"]


@cache
def of_case(name: str) -> Kernel:
    return kernel_in(load(RECORDINGS / _CASES[name]["file"]).tables)


def with_used(kernel: Kernel, **used: float) -> Kernel:
    """With other parts of resources' peaks."""
    return replace(kernel, resources=replace(kernel.resources, used=dict(kernel.used) | used))


def with_tables(name: str, **tables: pd.DataFrame) -> Kernel:
    return kernel_in(replace(load(RECORDINGS / _CASES[name]["file"]).tables, **tables))


def with_columns(columns: int) -> Kernel:
    """A product by wgmma of so many columns."""
    counts = load(RECORDINGS / _CASES["matmul by 2 warps"]["file"]).counts
    opcodes = counts["opcode"].astype("str")
    wide = opcodes.mask(opcodes.str.startswith("HMMA"), f"HGMMA.64x{columns}x16.F32")
    return with_tables("matmul by 2 warps", counts=counts.assign(opcode=wide.astype("category")))


def with_reread(times: float) -> Kernel:
    """A product whose loads ask for so many times what comes from DRAM."""
    kernel = of_case("matmul by 2 warps")
    asked = 32 * kernel.table.sectors("LDG", "LDGSTS")
    counters = dict(kernel.counters) | {"dram_read": asked / times}
    return replace(kernel, resources=replace(kernel.resources, counters=counters))


def with_samples(count: int) -> Kernel:
    samples = load(RECORDINGS / _CASES["chain of rows"]["file"]).samples
    most = samples.sort_values("samples", ascending=False).head(1)
    return with_tables("chain of rows", samples=most.assign(samples=count))


def with_l2(used: float) -> Kernel:
    """A product whose tiles have a short side, with so much to do for L2."""
    return with_used(of_case("matmul by 2 warps"), l2=used, dram=used, tensor=0.1)


def with_spread(share: float) -> Kernel:
    """CTAs of several waves whose times are apart by so much of their mean, on either side."""
    kernel = of_case("ragged segments")
    half = np.full(len(kernel.cta_cycles) // 2, share)
    cycles = 1e5 * (1 + np.concatenate([half, -half]))
    return replace(kernel, cta_cycles=cycles, grid=4 * kernel.room * kernel.sms)


def with_waits(share: float) -> Kernel:
    """Waits for loads in a loop, which are that part of the samples."""
    samples = load(RECORDINGS / _CASES["chain of rows"]["file"]).samples
    waits = samples["stall"] == "long_scoreboard"
    others = int(samples.loc[~waits, "samples"].sum())
    scale = others * share / (1 - share) / int(samples.loc[waits, "samples"].sum())
    scaled = (samples["samples"] * scale).round().astype("int64").where(waits, samples["samples"])
    return with_tables("chain of rows", samples=samples.assign(samples=scaled))


def with_tensor(used: float) -> Kernel:
    """A product whose tiles have a short side, with so much to do for the tensor cores."""
    return with_used(of_case("matmul by 2 warps"), tensor=used)


def partitions() -> Kernel:
    return kernel_in(captured("matmul_ws-heavy-0").tables)


def case(name: str) -> Callable[[], Kernel]:
    return lambda: of_case(name)


_IF_HALVED: dict[str, Callable[[], Kernel]] = {
    "ATTAINABLE_DRAM": case("softmax by 24 programs"),
    "SCHEDULERS": case("norms of a row by 32 warps"),
    "VECTOR_BYTES": case("mask of an odd length"),
    "LINE_SECTORS": case("bytes' products summed over warps each step"),
    "IN_FLIGHT": case("bags of rows by lone warps"),
    "TRIANGLE": case("attention to the future"),
    "TILE_SIDE": case("matmul by 2 warps"),
    "WGMMA_SIDE": lambda: with_columns(32),
    "BOUND": lambda: with_l2(0.4),
    "FEWEST_SAMPLES": lambda: with_samples(150),
    "NOISE_PCT": case("options on averages by one program each"),
    "PASSED_CYCLES": partitions,
    "WIDEST_PCT": case("softmax by 24 programs"),
    "ATTAINABLE": case("softmax by 24 programs"),
    "NEAR_ROOF": case("gelu of rows by 32 warps"),
    "MUCH": lambda: with_waits(0.1),
    "EXCESS": case("decode by broadcast"),
    "REREAD": lambda: with_reread(4),
    "UNEVEN": lambda: with_spread(0.25),
    "CTA_START_CYCLES": case("CTAs of one short row"),
    "LAUNCH_US": case("ragged segments"),
}
_IF_DOUBLED: dict[str, Callable[[], Kernel]] = {
    "ATTAINABLE_DRAM": case("bytes one by one"),
    "SCHEDULERS": case("short row of 32 warps"),
    "VECTOR_BYTES": case("field of a structure"),
    "LINE_SECTORS": case("member of a record"),
    "IN_FLIGHT": case("bags of rows by lone warps"),
    "TRIANGLE": case("attention to the future"),
    "TILE_SIDE": lambda: with_tensor(0.1),
    "WGMMA_SIDE": case("short depth of 5 stages"),
    "BOUND": case("gelu of rows by 32 warps"),
    "FEWEST_SAMPLES": lambda: with_samples(300),
    "NOISE_PCT": case("softmax by 24 programs"),
    "PASSED_CYCLES": partitions,
    "WIDEST_PCT": case("matmul of 1 stage"),
    "ATTAINABLE": case("softmax by 24 programs"),
    "NEAR_ROOF": case("matmul by 2 warps"),
    "MUCH": case("softmax by 24 programs"),
    "REREAD": lambda: with_reread(6),
    "UNEVEN": lambda: with_spread(0.5),
    "CTA_START_CYCLES": case("bytes one by one"),
    "LAUNCH_US": case("ragged segments"),
}


def found(kernel: Kernel) -> list[tuple[str, int, list[str], float]]:
    """The findings, with what they bring and the bounds of that."""

    def shown(finding: Finding) -> list[str]:
        return [f"{pct:.1f}" for pct in finding.gain[:3]]

    return [(each.finding, each.line, shown(each), round(each.weight, 1)) for each in diagnose(kernel)]


def test_there_are_at_most_20_and_each_is_tried() -> None:
    assert len(_NAMES) <= 21
    assert {*_IF_HALVED, *_IF_DOUBLED} == set(_NAMES)


@pytest.mark.parametrize(
    ("factor", "name"),
    quick(
        [(factor, name) for factor, made in ((0.5, _IF_HALVED), (2.0, _IF_DOUBLED)) for name in made],
        [(0.5, name) for name in _IF_HALVED],
    ),
)
def test_another_value_finds_something_else(
    factor: float, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (_IF_HALVED if factor < 1 else _IF_DOUBLED)[name]
    before = found(made())
    monkeypatch.setattr(thresholds, name, factor * getattr(thresholds, name))
    assert found(made()) != before
