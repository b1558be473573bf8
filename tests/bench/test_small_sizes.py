"""Benches run in small sizes, on the emulator or without kernels; and long-running checks can say no."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import profscope
from bench import code_diff, launch_spans, overhead, programs, reading, soak, two_runs
from tests.support.profiles import regular_profile
from tests.support.validation import validate

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("main", "words", "code", "said"),
    [
        (two_runs.main, "--trials 2 --rows matmul", 0, "matmul, 64^3: 0 of 2 trials with significant rows"),
        (overhead.main, "--pairs 2 --levels light", 0, "'kernel': 'matmul, 128^3', 'level': 'light'"),
        # Proton has nothing to watch without a GPU.
        (
            programs.main,
            "--rounds 2 --calls 5 --programs launches --tools Proton torch.profiler ctas=64",
            1,
            "  Proton: RuntimeError",
        ),
        (reading.main, "--spans 0.1 --many 5 --only 'one launch'", 0, "2,482,176"),
        (launch_spans.main, "--tiny --rows ^add", 0, "SM clock, GHz"),
        (soak.main, "--launches 40 --ctas 2", 0, "verdict: yes"),
    ],
    ids=["two runs", "overhead", "programs", "reading", "launch spans", "soak"],
)
def test_a_bench_runs_without_a_gpu(
    main: Callable[[list[str]], int], words: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(words)) == code
    assert said in capsys.readouterr().out


@pytest.mark.exhaustive
def test_a_slowdown_is_explained_by_the_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_diff.main(["--out", str(tmp_path)]) == 0
    assert "% of it explained" in capsys.readouterr().out
    assert len([*tmp_path.glob("*.pftrace.gz")]) == 2


def test_many_launches_of_one_file(tmp_path: Path) -> None:
    profile = regular_profile(launches=1, ctas=18, warps=1, iterations=4)
    rows = len(profile.tables.df)
    assert reading.many_launches(tmp_path / "many.parquet", 3 * rows / 1e6, profile) == 3 * rows
    loaded = profscope.load(tmp_path / "many.parquet")
    assert len(loaded.df) == 3 * rows
    assert validate(loaded.tables) == []


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
