"""What experiments say of the time, as a table of samples."""

from __future__ import annotations

import pandas as pd
import pytest

from bench.diagnose import WITHOUT_COUNTERS, cases
from profscope.analysis.derived.waits import SAMPLES, waits_of
from profscope.instrument_passes.ablation.groups import GROUPS
from profscope.profiles import load
from tests.support.counted import counted
from tests.support.experiments import experiment

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


def waits(*experiments: pd.DataFrame, busy: float = 0.0) -> pd.DataFrame:
    return waits_of(KERNEL, pd.concat(experiments, ignore_index=True), busy)


def shares(table: pd.DataFrame) -> dict[tuple[int, str], float]:
    """By line and stall, in percent."""
    found = table.groupby(["blamed_line", "stall"], observed=True)["samples"].sum() * 100 / SAMPLES
    return {(int(line), str(stall)): round(float(pct), 1) for (line, stall), pct in found.items() if pct}


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
    table = pd.concat([saved("store", 7, 20.0), fixed], ignore_index=True)
    assert "long_scoreboard" not in waits_of(once, table, 0.1)["stall"].tolist()


def test_an_exchange_is_waited_for_at_its_barriers() -> None:
    with_barrier, without = (
        counted(("STS", 5, 100), (op, 5, 100), ("LDS", 5, 100)) for op in ("BAR.SYNC", "SHFL.BFLY")
    )
    reduce = saved("reduce", 5, 100.0)
    found = waits_of(with_barrier, reduce, 0.0)
    assert set(zip(found["class"], found["stall"], strict=True)) == {("barrier", "barrier")}
    assert set(waits_of(without, reduce, 0.0)["stall"]) == {"short_scoreboard"}


def test_what_is_not_valid_or_has_other_addresses_tells_no_waits() -> None:
    others = saved("load x", 2, 60.0, valid=False), saved("load x", 2, 60.0, "resident")
    assert waits(*others).empty
    assert waits_of(KERNEL[:0], saved("load x", 2, 60.0), 0.0).empty


@pytest.mark.parametrize("file", [case["file"] for case in cases(WITHOUT_COUNTERS)])
def test_shares_are_the_whole_time(file: str) -> None:
    profile = load(WITHOUT_COUNTERS / file)
    table = waits_of(profile.counts, profile.experiments, 0.3)
    assert table["samples"].sum() == pytest.approx(SAMPLES, abs=len(table) / 2 + 1), "but for rounding"
    assert (table["samples"] >= 0).all()
    assert set(table["pc"]) <= set(profile.counts["pc"])
