"""The benchmarks of diff, in small sizes on the emulator."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import diffing, two_runs


def test_the_time_of_a_small_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert diffing.main(["--spans", "5000"]) == 0
    said = capsys.readouterr().out
    assert "diff " in said
    assert "passes" in said


@pytest.mark.exhaustive
def test_two_runs_of_a_small_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.json.gz"
    options = ["--trials", "2", "--null-builds", "1", "--rows", "layer", "--json", str(file)]
    assert two_runs.main(options) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "layer norm, 4 x 1024: 0 trials with significant rows" in captured.out
    assert "null build 0: +0.0" in captured.out
    documents = json.loads(gzip.decompress(file.read_bytes()))
    assert {each["task"] for each in documents} >= {"trial", "null build"}
    for each in documents:
        assert len(each["own_ns"]) == len(each["rows"]) > 5
