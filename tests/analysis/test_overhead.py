"""What recording cost: binaries and times, measured, estimated or unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import profscope
from profscope.analysis.estimates import LAYOUT_NOISE
from profscope.analysis.overhead import OVERHEAD_DTYPES
from profscope.profiles import Profile
from tests.support.profiles import profile_metadata, regular_profile

RESULTS = Path(__file__).parents[2] / "bench" / "results"
EVIDENCE = Path(__file__).parents[1] / "data" / "evidence"
CLOCK = {"read_cycles": 2.0, "row_cycles": 20.0, "basis": "measured"}
OWN = {"build": "instrumented", "registers": 120, "spills": 4, "shared_bytes": 1024}
OWN |= {"ctas_per_sm": 3, "instructions": 900, "rounds_as_bare": None}
BARE = {"build": "bare", "registers": 100, "spills": 0, "shared_bytes": 1024, "ctas_per_sm": 4}
BARE |= {"instructions": 700}


def profile(builds: list[dict[str, Any]] | None = None, **metadata: Any) -> Profile:
    plain = regular_profile(launches=3, ctas=4, warps=2, iterations=4)
    (kernel,) = set(plain.launches["kernel"])
    variants = {kernel: [{"variant": 0, "key": "0123456789abcdef", "builds": builds or []}]}
    return Profile(plain.tables.df, plain.launches, profile_metadata(variants=variants, **metadata))


def timed(bare_ns: list[float], instrumented_ns: list[float]) -> dict[str, Any]:
    (kernel,) = set(profile().launches["kernel"])
    times = {"key": "0123456789abcdef", "bare_ns": bare_ns, "instrumented_ns": instrumented_ns}
    return {"pairs": 101, "kernels": {kernel: [times | {"waited": 0}]}}


def only(table: pd.DataFrame) -> dict[str, Any]:
    assert {name: str(dtype) for name, dtype in table.dtypes.items()}.items() <= OVERHEAD_DTYPES.items()
    (row,) = table.reindex(columns=list(OVERHEAD_DTYPES)).to_dict("records")  # what is absent is null
    return row


def test_measured_is_the_ratio_of_pairs() -> None:
    rng = np.random.default_rng(0)
    bare, own = rng.normal(1000, 10, 101), rng.normal(1200, 10, 101)
    row = only(profile([BARE, OWN], clock=CLOCK, baseline=timed(bare.tolist(), own.tolist())).overhead())
    assert row["basis"] == "measured"
    assert row["bare_launches"] == 101
    assert row["bare_ns"] == np.median(bare)
    assert row["slowdown"] == pytest.approx(1.2, rel=0.005)
    assert row["slowdown_low"] == pytest.approx(1.2, rel=0.01)  # nothing but what the pairs vary by
    assert row["slowdown_high"] == pytest.approx(1.2, rel=0.01)


def test_an_estimate_is_called_one_and_follows_from_records_and_occupancy() -> None:
    plain = profile([BARE, OWN], clock=CLOCK)
    row = only(plain.overhead())
    assert row["basis"] == "estimated"
    roots = plain.df[plain.df["depth"] == 0]
    share = plain.launches["records"].sum() * (2 + 20 / 2) / roots["duration_cycles"].sum()
    alone, apart = 1 / (1 - min(share, 0.9)), 1 / (1 - min(7 * share, 0.5))
    assert row["slowdown_high"] == pytest.approx(max(alone, apart) * 4 / 3 * (1 + LAYOUT_NOISE))
    assert row["slowdown_low"] == pytest.approx(1 / (1 + LAYOUT_NOISE))
    assert row["slowdown"] == pytest.approx(np.sqrt(alone * 4 / 3))
    assert row["records_per_warp"] == plain.launches["records"].sum() / len(roots)


@pytest.mark.parametrize("which", ["before", "after"])
def test_an_estimate_holds_what_was_measured(which: str) -> None:
    (path,) = RESULTS.glob(f"nvidia-h200-*-fla-{which}.pftrace.gz")
    measured = profscope.load(path)
    (true,) = measured.overhead()["slowdown"]
    without = {key: value for key, value in measured.metadata.items() if key != "baseline"}
    unknown = Profile(measured.df, measured.launches, without)
    row = only(unknown.overhead())
    assert (row["basis"], row["slowdown_low"] < true < row["slowdown_high"]) == ("estimated", True)
    (verdict,) = unknown.verdict.values()
    (reason,) = [reason for reason in verdict.reasons if reason.rule == "slowdown"]
    assert reason.text.endswith("estimated); baseline= measures it")


def test_unknown_where_nothing_tells() -> None:
    table = profile().overhead()
    row = only(table)
    assert row["basis"] == "unknown"
    assert np.isnan(row["slowdown"])
    assert any("no known cost" in text for text in table.attrs["not_measured"])


def test_an_estimate_on_the_emulator_has_no_layout_noise() -> None:
    row = only(profile([BARE, OWN], clock=CLOCK, backend="emulator").overhead())
    assert row["basis"] == "estimated"
    assert row["slowdown_low"] == 1.0
    assert np.isnan(row["bare_ns"])


def test_what_the_emulators_model_says() -> None:
    times = timed([1000.0], [1100.0])
    times["kernels"]["matmul_kernel"][0]["basis"] = "model"
    table = profile([BARE, OWN], clock=CLOCK, baseline=times, backend="emulator").overhead()
    row = only(table)
    assert (row["basis"], row["bare_launches"], row["bare_ns"]) == ("model", 0, 1000.0)
    assert row["slowdown"] == row["slowdown_low"] == row["slowdown_high"] == pytest.approx(1.1)
    assert not any("bare time" in text for text in table.attrs["not_measured"])


def test_what_the_hardware_timed_bare_says_what_recording_cost() -> None:
    """Recorded on a GPU: a gather of 16,384 CTAs, of which the first and last are stamped, and a kernel that
    shared memory binds, which records slow down."""
    gather, column = (
        profscope.load(EVIDENCE / f"{name}.pftrace.gz").overhead().iloc[0] for name in ("gather", "column")
    )
    for row in (gather, column):
        assert (row["basis"], row["bare_launches"]) == ("counters", 0)
        assert row["slowdown"] == pytest.approx(row["instrumented_ns"] / row["bare_ns"], rel=0.01)
    counters = profscope.load(EVIDENCE / "gather.pftrace.gz").counters
    assert gather["bare_ns"] == counters.loc[counters["counter"] == "time", "value"].iloc[0]
    assert gather["slowdown_low"] < 1 < gather["slowdown_high"]
    assert 1 < column["slowdown_low"] < column["slowdown_high"]


@pytest.mark.parametrize("end", [0, 16_383])
def test_counters_say_nothing_of_launches_that_began_or_ended_nobody_knows_when(end: int) -> None:
    tables = profscope.load(EVIDENCE / "gather.pftrace.gz").tables
    cut = replace(tables, ctas=tables.ctas[tables.ctas["cta"] != end])
    assert only(Profile.of(cut).overhead())["basis"] == "estimated"


def test_counters_say_nothing_of_a_launch_that_is_shorter_than_what_they_add() -> None:
    recorded = profscope.load(EVIDENCE / "column.pftrace.gz")
    shorter = 500 / recorded.overhead()["instrumented_ns"].iloc[0]
    launches = recorded.launches
    took = (shorter * (launches["end_ns"] - launches["start_ns"])).astype("int64")
    short = launches.assign(end_ns=launches["start_ns"] + took)
    table = Profile.of(replace(recorded.tables, launches=short)).overhead()
    assert table["basis"].item() == "estimated"
    assert table["bare_ns"].item() > 0
    assert any("less than 2 us" in text for text in table.attrs["not_measured"])
