"""What own counts, times of CTAs and experiments say in place of counters and PC samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bench.diagnose import WITHOUT_COUNTERS, cases
from profscope.analysis.evidence_table import EvidenceTable, evidence_table
from profscope.analysis.rules.without_counters import SAMPLES, idle_of, waits_of
from profscope.instrument_passes.ablation.groups import GROUPS
from profscope.profiles import load
from profscope.schema import Tables, ctas_frame, measured_frame
from tests.support.counted import counted
from tests.support.experiments import experiment
from tests.support.kernel_of import kernel_in

KERNEL = counted(
    ("S2R", 1, 10),
    ("LDG.E", 2, 100),
    ("LDG.E", 3, 100),
    ("IMAD", 4, 300),
    ("RED.E.ADD", 5, 100),
    ("RED.E.ADD", 6, 300),
    ("STG.E", 7, 10),
)


def saved(op: str, line: int, pct: float, how: str = "off", *, valid: bool = True) -> pd.DataFrame:
    place = ("k.py", line) if line else ("", 0)
    return experiment(op, how, (pct, pct, pct), place=place, valid=valid)


def table_of(counts: pd.DataFrame) -> EvidenceTable:
    return evidence_table(counts, measured_frame("samples"))


def waits(*experiments: pd.DataFrame, of: pd.DataFrame = KERNEL, busy: float = 0.0) -> EvidenceTable:
    return waits_of(table_of(of), pd.concat(experiments, ignore_index=True), busy)


def shares(table: EvidenceTable) -> dict[tuple[int, str], float]:
    """By line and stall, in percent."""
    assert np.array_equal(table.at, table.blamed)
    found = pd.DataFrame(table.blamed * 100 / SAMPLES, table.line, table.stalls).groupby(level=0).sum()
    every = {(int(line), str(stall)): round(float(pct), 1) for (line, stall), pct in found.stack().items()}
    return {place: pct for place, pct in every.items() if pct}


def test_what_an_op_saves_waits_for_its_instructions() -> None:
    found = shares(waits(saved("load x", 2, 60.0), saved("store", 7, 40.0)))
    assert found == {(2, "long_scoreboard"): 60.0, (7, "lg_throttle"): 40.0}


def test_lines_of_a_group_add_up_to_the_group() -> None:
    """Each load hides the other: together they save 40 % of the time, not 60 %."""
    two = saved("load x", 2, 40.0), saved("load y", 3, 20.0)
    found = shares(waits(*two, saved(GROUPS["memory"], 0, 30.0)))
    assert (found[2, "long_scoreboard"], found[3, "long_scoreboard"]) == (20.0, 10.0)
    alone = shares(waits(*two))
    assert (alone[2, "long_scoreboard"], alone[3, "long_scoreboard"]) == (40.0, 20.0)


def test_atomics_take_what_their_group_saves_beyond_its_lines() -> None:
    """While one is left out, the others are still in its way."""
    both = saved("atomic add", 5, 0.1), saved("atomic add", 6, 0.2)
    found = shares(waits(saved("load x", 2, 10.0), *both, saved(GROUPS["memory"], 0, 90.0)))
    assert (found[5, "long_scoreboard"], found[6, "long_scoreboard"]) == (40.0, 40.0)
    assert found[2, "long_scoreboard"] == 10.0


def test_what_nothing_saved_is_issued_as_far_as_issue_slots_are_busy() -> None:
    """By how often each instruction ran."""
    found = shares(waits(saved("store", 7, 8.0), busy=0.46))
    issued = {line: pct for (line, stall), pct in found.items() if stall == "selected"}
    assert issued == {1: 0.5, 2: 5.0, 3: 5.0, 4: 15.0, 5: 5.0, 6: 15.0, 7: 0.5}
    rest = {stall: 0.0 for _, stall in found}
    for (_, stall), pct in found.items():
        rest[stall] += pct
    assert rest["unexplained"] == pytest.approx(46.0, abs=0.2)


def test_loads_in_loops_that_stay_take_the_rest() -> None:
    """An address rests on the load at line 3, so that it cannot be left out; the one at line 1 runs once."""
    fixed = experiment("load at", "off", None, place=("k.py", 3))
    found = shares(waits(saved("store", 7, 20.0), fixed, busy=0.1))
    assert found[3, "long_scoreboard"] == 70.0
    assert not any(stall == "unexplained" for _, stall in found)
    once = counted(("LDG.E", 3, 10), ("IMAD", 4, 300), ("STG.E", 7, 10))
    assert "long_scoreboard" not in waits(saved("store", 7, 20.0), fixed, of=once, busy=0.1).stalls


def test_an_exchange_is_waited_for_at_its_barriers() -> None:
    with_barrier, without = (
        counted(("STS", 5, 100), (op, 5, 100), ("LDS", 5, 100)) for op in ("BAR.SYNC", "SHFL.BFLY")
    )
    reduce = saved("reduce", 5, 100.0)
    found = waits(reduce, of=with_barrier)
    assert found.stalls == ("barrier",)
    assert found.waits(found.of_class("barrier")) == 1.0
    assert waits(reduce, of=without).stalls == ("short_scoreboard",)


def test_what_is_not_valid_or_has_other_addresses_tells_no_waits() -> None:
    others = saved("load x", 2, 60.0, valid=False), saved("load x", 2, 60.0, "resident")
    assert not waits(*others).stalls
    assert not waits(saved("load x", 2, 60.0), of=KERNEL[:0]).stalls


@pytest.mark.parametrize("file", [case["file"] for case in cases(WITHOUT_COUNTERS)])
def test_shares_are_the_whole_time(file: str) -> None:
    profile = load(WITHOUT_COUNTERS / file)
    table = waits(profile.experiments, of=profile.counts, busy=0.3)
    assert table.at.sum() == pytest.approx(SAMPLES)
    assert (table.at >= 0).all()


def ctas(*rows: tuple[int, int, int], launch: int = 0) -> pd.DataFrame:
    """rows: SM, begin and end of each CTA."""
    sms, starts, ends = zip(*rows, strict=True)
    alike = {"kernel": "k", "variant": 0, "launch": launch, "start_cycle": 0, "recorded": True}
    columns = {name: [value] * len(rows) for name, value in alike.items()}
    columns |= {"cta": range(len(rows)), "sm": sms, "start_ns": starts, "end_ns": ends}
    return ctas_frame(columns | {"duration_cycles": [e - s for s, e in zip(starts, ends, strict=True)]})


FULL = ctas((0, 0, 100), (1, 0, 100))


@pytest.mark.parametrize(
    ("launch", "grid", "sms", "idle"),
    [
        (FULL, 2, 2, 0.0),
        (FULL, 2, 4, 0.5),
        (ctas((0, 0, 100), (0, 100, 200), (1, 0, 100)), 3, 2, 0.25),
        (ctas((0, 0, 40), (1, 0, 100), (0, 60, 100)), 3, 2, 0.1),
        (ctas((0, 0, 100), (1, 0, 60), (1, 10, 50), (1, 20, 80)), 4, 2, 0.1),
    ],
    ids=[
        "busy",
        "SMs without a CTA",
        "a last wave",
        "a gap, rows in any order",
        "CTAs at once, one within another",
    ],
)
def test_an_sm_is_idle_while_no_cta_runs_on_it(
    launch: pd.DataFrame, grid: int, sms: int, idle: float
) -> None:
    assert idle_of(launch, grid, sms) == pytest.approx(idle)


def test_of_several_launches_it_is_the_mean() -> None:
    half = ctas((0, 1000, 1100), (0, 1100, 1200), launch=1)
    assert idle_of(pd.concat([FULL, half], ignore_index=True), 2, 2) == pytest.approx(0.25)


def test_nothing_is_known_if_a_cta_or_the_device_is_missing() -> None:
    assert idle_of(FULL, 3, 4) == 0.0
    assert idle_of(FULL, 2, 0) == 0.0
    assert idle_of(ctas((0, 5, 5)), 1, 4) == 0.0, "a launch that took no time"
    assert idle_of(FULL[:0], 2, 4) == 0.0
    part = ctas((0, 0, 100), launch=1)
    assert idle_of(pd.concat([FULL, part], ignore_index=True), 2, 4) == 0.5, "whole launches count"


def recorded(name: str) -> Tables:
    return load(WITHOUT_COUNTERS / f"{name}.pftrace.gz").tables


def saving(tables: Tables, pct: float) -> Tables:
    """A launch without global memory takes so much less."""
    rows = tables.experiments
    is_memory = rows["op"] == GROUPS["memory"]
    assert is_memory.any()
    return replace(tables, experiments=rows.assign(saved_pct=rows["saved_pct"].mask(is_memory, pct)))


def test_memory_is_no_busier_than_twice_what_a_launch_without_it_saves() -> None:
    tables = recorded("good-layer-norm")
    used = kernel_in(tables).used
    assert min(used["dram"], used["l2"]) > 0.5
    for pct, most in ((10.0, 0.2), (0.4, 0.008), (-3.0, 0.0)):
        capped = kernel_in(saving(tables, pct)).used
        assert (capped["dram"], capped["l2"]) == (pytest.approx(most), pytest.approx(most))
        assert capped["issue"] == used["issue"], "it says nothing of instructions"


def test_without_a_valid_experiment_nothing_is_capped() -> None:
    tables = recorded("good-matmul-bfloat16")
    unknown = replace(tables, experiments=tables.experiments.assign(valid=False))
    assert kernel_in(unknown).used["l2"] > 2 * kernel_in(tables).used["l2"]


def test_l2_has_no_use_without_measured_peaks() -> None:
    tables = recorded("good-layer-norm")
    device = {**tables.metadata["device"], "peaks": {}}
    unmeasured = kernel_in(replace(tables, metadata={**tables.metadata, "device": device})).used
    assert set(kernel_in(tables).used) - set(unmeasured) == {"l2"}
    assert unmeasured["dram"] > 0.5, "the data sheet has its peak"


def test_dram_sends_no_more_than_the_tensors_have() -> None:
    """A product's loads ask for each byte many times, and caches have most of them."""
    tables = recorded("matmul-of-1-stage")
    kernel = kernel_in(tables)
    asked = 32 * kernel.table.sectors("LDG", "LDGSTS")
    assert kernel.counters["dram_read"] == sum(kernel.tensor_bytes.values()) < asked / 10
    evidence = {**tables.metadata["evidence"], "tensors": []}
    unknown = kernel_in(replace(tables, metadata={**tables.metadata, "evidence": evidence}))
    assert "dram" in kernel.used
    assert "dram" not in unknown.used, "all that loads ask for is no lower bound"


def test_nothing_is_used_of_what_was_not_counted() -> None:
    kernel = kernel_in(replace(recorded("good-layer-norm"), counts=measured_frame("counts")))
    assert (dict(kernel.used), dict(kernel.counters)) == ({}, {})
    assert not {"use", "counts"} & kernel.known
