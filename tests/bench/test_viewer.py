"""bench/viewer.py runs, on a small profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import viewer


@pytest.mark.exhaustive
def test_what_it_measures_in_a_process_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert viewer.main(["--of", str(tmp_path), "--do", "make", "--spans", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["spans"] > 10_000
    assert viewer.main(["--of", str(tmp_path), "--do", "screen"]) == 0
    assert json.loads(capsys.readouterr().out)["wall_s"] > 0


@pytest.mark.exhaustive
def test_a_step_is_measured_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "viewer.json"
    code = viewer.main(["--spans", "0.01", "--only", "view one launch", "--json", str(told)])
    row = capsys.readouterr().out.splitlines()[-1]
    (step,) = json.loads(told.read_text())["steps"]
    assert step["step"] == "view one launch"
    assert step["peak_bytes"] > 1 << 20
    assert row.endswith("missed" if step["missed"] else "met")
    assert code == int(step["missed"])
