"""The long-running checks, on the emulator and at small size: that they run, and that they can say no."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench import soak

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
