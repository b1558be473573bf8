"""Benches run in small sizes, on the emulator or without kernels."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import profscope
from bench import overhead, programs, reading, soak, two_runs
from bench.launch_spans import main
from profscope.profiles import Profile
from tests.support.profiles import regular_profile
from tests.support.validation import validate


@pytest.mark.exhaustive
def test_two_runs_of_a_small_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert two_runs.main(["--trials", "2", "--rows", "matmul"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "matmul, 64^3: 0 of 2 trials with significant rows" in captured.out
    assert "to be found: num_stages=1: +" in captured.out


@pytest.mark.exhaustive
def test_a_session_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert overhead.main(["--pairs", "2", "--levels", "light"]) == 0
    assert "'kernel': 'matmul, 128^3', 'level': 'light'" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_tools_take_turns_and_one_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Proton has nothing to watch without a GPU."""
    sizes = ["--rounds", "2", "--calls", "5", "--programs", "launches"]
    assert programs.main([*sizes, "--tools", "Proton", "torch.profiler", "ctas=64"]) == 1
    title, _, proton, profiler, session = capsys.readouterr().out.splitlines()
    assert title == "launches, 5 in a block, us"
    assert proton.startswith("  Proton: RuntimeError")
    assert len(profiler.removeprefix("  torch.profiler").split()) == 11
    assert len(session.removeprefix("  ctas=64").split()) == 12  # and its first calls


@pytest.mark.exhaustive
def test_seconds_and_memory_of_steps(tmp_path: Path) -> None:
    told = tmp_path / "reading.json"
    sizes = ["--spans", "0.1", "--many", "5", "--json", str(told)]
    assert reading.main([*sizes, "--only", "one launch"]) == 0
    document = json.loads(told.read_text())
    view, many = document["steps"]
    assert (view["step"], many["step"]) == ("view one launch", "many: one launch")
    assert min(view["s"], many["s"], many["cpu_s"]) > 0
    assert many["answer"] == "2,482,176"
    assert document["about"]["many"] == 2 * 2_482_176


def test_many_launches_of_one_file(tmp_path: Path) -> None:
    profile = regular_profile(launches=1, ctas=18, warps=1, iterations=4)
    rows = len(profile.tables.df)
    assert reading.many_launches(tmp_path / "many.parquet", 3 * rows / 1e6, profile) == 3 * rows
    loaded = profscope.load(tmp_path / "many.parquet")
    assert isinstance(loaded, Profile)
    assert len(loaded.df) == 3 * rows
    assert validate(loaded.tables) == []


# The long-running checks.

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_a_soak_on_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--launches", "40", "--ctas", "2"]) == 0
    found = capsys.readouterr().out
    assert "40 launches of 2 CTAs in " in found
    assert "found: 40; spool: " in found
    assert "verdict: yes" in found


def test_a_soak_says_no() -> None:
    flat, rising = [1 << 30] * 20, [(1 << 30) + (sample << 23) for sample in range(20)]
    done = soak.Soak("gpu", 100, 1, found=99, wrong=1, host_bytes=rising, device_bytes=[*flat[:19], 2 << 30])
    said = "; ".join(done.failures)
    for part in ("1 of 100 launches are lost", "1 results", "host memory rose", "device memory rose"):
        assert part in said
    assert soak.Soak("gpu", 100, 1, found=100, host_bytes=flat, device_bytes=flat).failures == []
    with pytest.raises(ValueError, match="fewer than"):
        soak.soak(3, 1)


@pytest.mark.parametrize(("summary", "code"), [("0 errors", 0), ("3 errors", 1)])
def test_the_sanitizers_summaries_are_printed(tmp_path: Path, summary: str, code: int) -> None:
    fake = tmp_path / "compute-sanitizer"
    fake.write_text(f'#!/bin/sh\necho "========= ERROR SUMMARY: {summary}"\n')
    fake.chmod(0o755)
    ran = subprocess.run(
        ["sh", "bench/sanitize.sh"],
        capture_output=True, text=True, cwd=ROOT, check=False, env=os.environ | {"SANITIZER": str(fake)},
    )  # fmt: skip
    assert ran.returncode == code
    assert ran.stdout.count(f"ERROR SUMMARY: {summary}") == 4


def test_without_a_sanitizer_the_script_says_so() -> None:
    ran = subprocess.run(
        ["sh", "bench/sanitize.sh"],
        capture_output=True, text=True, cwd=ROOT, check=False, env=os.environ | {"SANITIZER": "no-such-tool"},
    )  # fmt: skip
    assert ran.returncode == 2
    assert "no no-such-tool" in ran.stderr


# The benchmark of launch spans.


@pytest.mark.exhaustive
def test_it_runs_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tiny", "--rows", "^add"]) == 0
    told = capsys.readouterr().out
    assert told.count("emulated") == 3
    assert "SM clock, GHz" in told
