"""Findings beside experiments at their lines."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from profscope.tuning.experiments.tested_findings import with_experiments

NAN = math.nan


def findings(
    name: str, gain: tuple[float, float, float] = (50.0, 40.0, 60.0), tried: str = ""
) -> pd.DataFrame:
    columns: dict[str, list[Any]] = {
        "kernel": ["k", "k"], "variant": [0, 0], "finding": [name, "tail"],
        "file": ["k.py", ""], "line": [7, 0],
        "gain_pct": [gain[0], 20.0], "gain_low_pct": [gain[1], 10.0], "gain_high_pct": [gain[2], 30.0],
        "tried": [tried, ""], "measured_pct": [12.0 if tried else NAN, NAN],
    }  # fmt: skip
    return pd.DataFrame(columns)


def experiments(
    op: str, how: str, saved: tuple[float, float, float], unit: str = "us", line: int = 7, valid: bool = True
) -> pd.DataFrame:
    row = {
        "kernel": "k", "variant": 0, "file": "k.py", "line": line, "op": op, "experiment": how,
        "saved_pct": saved[0], "low_pct": saved[1], "high_pct": saved[2], unit: 10.0, "valid": valid,
        "why_not": "",
    }  # fmt: skip
    return pd.DataFrame([row])


def gains(told: pd.DataFrame) -> list[float]:
    return told.loc[0, ["gain_pct", "gain_low_pct", "gain_high_pct"]].tolist()


def test_what_a_repair_would_do_is_the_gain() -> None:
    told = with_experiments(
        findings("uncoalesced-store"), experiments("store", "contiguous", (81.0, 80.0, 82.0))
    )
    assert gains(told) == [81.0, 80.0, 82.0]
    assert told.loc[0, "tried"] == "contiguous (store)"
    assert told.loc[0, "measured_pct"] == 81.0
    assert told.loc[1, "gain_pct"] == 20.0, "no experiment tests a tail"


def test_what_leaves_a_thing_out_is_an_upper_bound() -> None:
    told = with_experiments(findings("atomics"), experiments("atomic", "off", (45.0, 44.0, 46.0)))
    assert gains(told) == [46.0, 40.0, 46.0]
    unknown = with_experiments(
        findings("atomics", (NAN, NAN, NAN)), experiments("atomic", "off", (45.0, 44.0, 46.0))
    )
    assert math.isnan(unknown.loc[0, "gain_pct"])
    assert unknown.loc[0, "gain_high_pct"] == 46.0


def test_a_finding_that_its_experiment_refutes_goes() -> None:
    told = with_experiments(
        findings("uncoalesced-load"), experiments("load x", "contiguous", (0.1, -0.5, 0.7))
    )
    assert told["finding"].tolist() == ["tail"]
    assert told.attrs["refuted"] == ["uncoalesced-load at line 7: contiguous saves 0.1 %"]
    kept = with_experiments(findings("atomics"), experiments("atomic", "off", (0.1, -0.5, 0.7)))
    assert kept["finding"].tolist() == ["atomics", "tail"], "what overlaps may cost nothing alone"


@pytest.mark.parametrize(
    "other",
    [
        experiments("store", "contiguous", (3.0, 2.0, 4.0), line=8),
        experiments("store", "contiguous", (81.0, 80.0, 82.0), valid=False),
        experiments("load x", "contiguous", (3.0, 2.0, 4.0)),
        experiments("store", "off", (81.0, 80.0, 82.0)),
    ],
    ids=["another line", "not valid", "another op", "another experiment"],
)
def test_other_experiments_say_nothing(other: pd.DataFrame) -> None:
    told = with_experiments(findings("uncoalesced-store"), other)
    assert gains(told) == [50.0, 40.0, 60.0]
    assert told.loc[0, "tried"] == ""


def test_cycles_are_no_gain() -> None:
    unknown = findings("uncoalesced-store", (NAN, NAN, NAN))
    told = with_experiments(unknown, experiments("store", "contiguous", (81.0, 81.0, 81.0), unit="kcycles"))
    assert all(map(math.isnan, gains(told)))
    assert told.loc[0, "measured_pct"] == 81.0


def test_an_option_that_was_tried_is_said_first() -> None:
    tried = findings("uncoalesced-store", tried="num_warps=2")
    told = with_experiments(tried, experiments("store", "contiguous", (81.0, 80.0, 82.0)))
    assert (told.loc[0, "tried"], told.loc[0, "measured_pct"]) == ("num_warps=2", 12.0)


def test_scattered_addresses_are_a_finding_of_their_own() -> None:
    told = with_experiments(
        findings("few-stages"), experiments("load x", "contiguous", (81.0, 80.0, 82.0), line=9)
    )
    assert told["finding"].tolist() == ["uncoalesced-load", "few-stages", "tail"]
    first = told.iloc[0]
    assert first[["gain_pct", "gain_low_pct", "gain_high_pct"]].tolist() == [81.0, 80.0, 82.0]
    assert (first["kernel"], first["file"], first["line"]) == ("k", "k.py", 9)
    assert told["line"].dtype == findings("tail")["line"].dtype


@pytest.mark.parametrize("name", ["uncoalesced-store", "unvectorized-access"])
def test_a_place_is_named_once(name: str) -> None:
    told = with_experiments(findings(name), experiments("store", "contiguous", (81.0, 80.0, 82.0)))
    assert told["finding"].tolist() == [name, "tail"]


def test_what_saves_no_more_than_noise_is_no_finding() -> None:
    told = with_experiments(findings("few-stages"), experiments("load x", "contiguous", (9.0, 4.9, 14.0)))
    assert told["finding"].tolist() == ["few-stages", "tail"]
