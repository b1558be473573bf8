"""Rows keep their samples in JSON; the table shows ratios by round, and every error."""

from __future__ import annotations

import json

from bench.table import Cell, Row, render, row_from_json, row_to_json

SLOW = Row(
    "slowdown",
    "add",
    "ratio",
    {
        "bare": Cell((100.0, 110.0, 120.0)),
        "profscope": Cell((101.0, 111.1, 121.2)),
        "Proton": Cell((110.0, 121.0), error="RuntimeError: it stopped"),
    },
    baseline="bare",
)


def test_ratios_are_taken_round_by_round() -> None:
    line = next(line for line in render([SLOW]).splitlines() if line.startswith("add"))
    assert line.split()[1:] == ["110", "[105", "115]", "1.010", "[1.010", "1.010]", "1.100", "(1)"]


def test_the_same_remark_is_listed_once_in_a_group() -> None:
    rows = [Row("g", name, "us", {"Proton": Cell(error="no device")}) for name in "ab"]
    text = render([*rows, Row("h", "c", "us", {"Proton": Cell(error="no device")})])
    assert text.count("no device") == 2
    assert text.count("- (1)") == 3


def test_json_round_trip() -> None:
    assert row_from_json(json.loads(json.dumps(row_to_json(SLOW)))) == SLOW
