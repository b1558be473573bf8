"""The benchmark runs from end to end, on the emulator, and outlives workers that die."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.__main__ import main, supervised, tasks
from bench.kernels import Workload
from bench.kernels import add as add_workload
from bench.timing import interleave
from bench.variants import BARE, OURS, buffers, variants
from tests.kernels.aot import ttgir

# A worker that does the tasks named "good" and dies in the others.
WORKER = """
import json, os, sys
for name in json.loads(sys.argv[1]):
    if name == "bad":
        os.abort()
    if name == "slow":
        import time; time.sleep(60)
    print("something else", flush=True)
    row = {"group": "g", "name": name, "unit": "us", "baseline": "", "about": {},
           "cells": {"profscope": {"samples": [1.0], "error": "", "note": ""}}}
    print("result: " + json.dumps({"task": name, "seconds": 1.0, "rows": [row]}), flush=True)
"""


def found(names: list[str], limit_s: float) -> dict[str, str]:
    rows = supervised(names, [sys.executable, "-c", WORKER], limit_s)
    return {row.name or row.group: row.cells["profscope"].error for row in rows}


def test_a_worker_that_dies_costs_one_task() -> None:
    errors = found(["good", "bad", "fine"], limit_s=60)
    assert errors["good"] == errors["fine"] == ""
    assert "status -6" in errors["bad"]


def test_out_of_time_the_rest_is_reported() -> None:
    errors = found(["good", "slow", "late"], limit_s=3)
    assert errors["good"] == ""
    assert "status -9" in errors["slow"]
    assert errors["late"] == "not run: out of time"


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_dry_run_measures_and_says_what_it_cannot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    rows = "record: back|slowdown: heavy: add|end"
    status = main(["--dry-run", "--rounds", "2", "--rows", rows, "--json", str(path)])
    result = json.loads(path.read_text())
    cells = {row["group"].split(":")[0].split(",")[0]: row["cells"] for row in result["rows"]}
    assert cells.keys() == {"cost of a record", "slowdown", "end of a session"}
    assert len(cells["slowdown"][BARE]["samples"]) == len(cells["slowdown"][OURS]["samples"]) == 2
    assert cells["cost of a record"][OURS]["samples"][0] > 0
    said = capfd.readouterr().out
    assert status == 1  # Proton does not know the emulator,
    assert "Unsupported backend" in said  # and the table says so
    assert "the figures mean nothing" in said


def test_tasks_cover_every_kernel_at_both_levels() -> None:
    names = list(tasks(dry_run=True, rounds=1))
    for kernel in ("add", "softmax", "layer norm", "matmul", "attention"):
        for level in ("light", "heavy"):
            assert any(name.startswith(f"slowdown: {level}: {kernel}") for name in names)


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
        interleave(variants(workload, "kernel-span", given, OURS), lambda name: {"us": 1.0}, rounds=1)
