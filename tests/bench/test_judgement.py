"""The command that measures how fast findings are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import judgement


@pytest.mark.exhaustive
def test_seconds_of_each_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "judgement.json"
    assert judgement.main(["--scale", "0.004", "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    questions = ["findings", "critical_path", "overlap", "summary", "verdict", "report", "diff"]
    assert [line.split("spans")[1].split()[0] for line in lines] == questions * 2
    told = json.loads(path.read_text())
    assert [row["question"] for row in told["rows"]] == questions * 2
    assert all(row["seconds"] > 0 <= row["cpu_seconds"] for row in told["rows"])
