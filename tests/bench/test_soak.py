"""The long-running checks, on the emulator and at small size: that they run, and that they can say no."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from bench import drains, soak

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_a_soak_on_the_emulator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "soak.json"
    assert soak.main(["--launches", "40", "--ctas", "2", "--json", str(file)]) == 0
    assert "verdict: yes" in capsys.readouterr().out
    found = json.loads(file.read_text())
    assert (found["launches"], found["found"], found["wrong"], found["failures"]) == (40, 40, 0, [])
    assert len(found["host_bytes"]) == 20
    assert found["spool_bytes"] > 0


def test_a_soak_says_no() -> None:
    flat, rising = [1 << 30] * 20, [(1 << 30) + (sample << 23) for sample in range(20)]
    done = soak.Soak("gpu", 100, 1, found=99, wrong=1, host_bytes=rising, device_bytes=[*flat[:19], 2 << 30])
    said = "; ".join(done.failures)
    for part in ("1 of 100 launches are lost", "1 results", "host memory rose", "device memory rose"):
        assert part in said
    assert soak.Soak("gpu", 100, 1, found=100, host_bytes=flat, device_bytes=flat).failures == []
    with pytest.raises(ValueError, match="fewer than"):
        soak.soak(3, 1)


def test_the_stages_of_a_drain(capsys: pytest.CaptureFixture[str]) -> None:
    assert drains.main(["--mb", "9", "--rounds", "1"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading == "GB/s, 9 MiB at a time"
    rates = {line[:42].strip(): float(line[42:]) for line in lines[:4]}  # with a GPU there are more
    assert [re.sub(r"\d+ threads", "N threads", name) for name in rates] == [
        "copy to old pages, 1 thread",
        "copy to new pages, 1 thread",
        "copy to numpy's new pages, 1 thread",
        "copy to new pages, N threads",
    ]


def test_a_rate_is_bytes_over_the_median_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(drains.time, "perf_counter", lambda: next(clock))
    calls: list[int] = []
    assert drains.gb_per_s(4_000_000_000, lambda: calls.append(1), 3) == 2.0
    assert len(calls) == 3


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
