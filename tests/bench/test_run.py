"""The benchmark runs from end to end, on the emulator, and outlives workers that die."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.kernels import Workload
from bench.kernels import add as add_workload
from bench.table import Cell, Row, render, row_from_json, row_to_json
from bench.timing import interleave
from bench.variants import BARE, OURS, Level, buffers, variants
from bench.workers import supervised
from tests.kernels.aot import ttgir

# A worker that does the tasks named "good", dies in those named "bad", and leaves a broken GPU behind "last".
WORKER = """
import json, os, sys, time
for name in map(str.strip, sys.stdin):
    print("something else", flush=True)
    if "bad" in name:
        os.abort()
    time.sleep(60 * ("slow" in name))
    row = {"group": "g", "name": name, "unit": "us", "baseline": "", "about": {}, "cells": {}}
    print("result: " + json.dumps({"task": name, "seconds": 1.0, "rows": [row]}), flush=True)
    if "last" in name:
        os._exit(3)
"""


def ran(names: list[str], limit_s: float, jobs: int = 1) -> dict[str, str]:
    """What came of each task, "" if it was done."""
    rows = list(supervised(names, [sys.executable, "-c", WORKER], limit_s, jobs))
    assert len(rows) == len(names)
    return {row.name or row.group: row.cells["profscope"].error if row.cells else "" for row in rows}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_dies_costs_one_task(jobs: int) -> None:
    names = ["good", "bad", "last", "good too", "bad too", "best"]
    died = "the process ended with status -6 in this task"
    assert ran(names, 60, jobs) == {name: died if "bad" in name else "" for name in names}


def test_out_of_time_every_task_is_named() -> None:
    errors = ran(["good", "slow", "late"], limit_s=2)
    assert errors == {"good": "", "slow": "stopped: out of time", "late": "not run: out of time"}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_dry_run_measures_and_says_what_it_cannot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    rows = "record: back|overhead: (light|heavy, ctas=64): add|end"
    status = main(["--dry-run", "--rounds", "2", "--rows", rows, "--json", str(path)])
    result = json.loads(path.read_text())
    cells = {row["group"].split(":")[0].split(",")[0]: row["cells"] for row in result["rows"]}
    assert cells.keys() == {"cost of a record", "overhead", "end of a session"}
    for row in [row for row in result["rows"] if row["group"].startswith("overhead")]:
        assert len(row["cells"][BARE]["samples"]) == len(row["cells"][OURS]["samples"]) == 2
    assert cells["cost of a record"][OURS]["samples"][0] > 0
    said = capfd.readouterr().out
    assert status == 1  # Proton does not know the emulator,
    assert "Unsupported backend" in said  # and the table says so
    assert "the figures mean nothing" in said


def test_a_variant_that_fails_keeps_its_samples_and_the_others_go_on() -> None:
    calls: list[str] = []

    def sample(name: str) -> dict[str, float]:
        calls.append(name)
        if calls == ["a", "b", "a", "b"]:
            raise ValueError("twice is enough")
        return {"us": float(len(calls))}

    cells = interleave({"a": nullcontext, "b": nullcontext}, sample, rounds=3)["us"]
    assert calls == ["a", "b", "a", "b", "a"]
    assert cells["a"].samples == (1.0, 3.0, 5.0)
    assert cells["b"].samples == (2.0,)
    assert cells["b"].error == "ValueError: twice is enough"


def test_a_session_that_records_nothing_is_an_error() -> None:
    workload: Workload = add_workload(1 << 14)
    given = buffers(ttgir(workload.spec, "cuda:90"), workload, "kernel-span")
    with pytest.raises(RuntimeError, match="recorded no launch"):
        interleave(variants(workload, Level("kernel-span"), given, OURS), lambda name: {"us": 1.0}, rounds=1)


# The table: ratios by round, and every error.

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
