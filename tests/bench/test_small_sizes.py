"""Benches run in small sizes, on the emulator or without kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import profscope
from bench import code_diff, overhead, programs, reading, two_runs
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
def test_a_slowdown_is_explained_by_the_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_diff.main(["--out", str(tmp_path)]) == 0
    assert "% of it explained" in capsys.readouterr().out
    assert len([*tmp_path.glob("*.pftrace.gz")]) == 2


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
