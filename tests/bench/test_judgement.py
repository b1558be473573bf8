"""The commands that measure findings: how right they are, and how fast."""

from __future__ import annotations

import contextvars
import json
from pathlib import Path

import pytest

import profscope
from bench import judgement, planted


def test_seconds_of_each_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "judgement.json"
    assert judgement.main(["--scale", "0.004", "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    questions = ["findings", "critical_path", "overlap", "summary", "verdict", "report", "diff"]
    assert [line.split("spans")[1].split()[0] for line in lines] == questions * 2
    told = json.loads(path.read_text())
    assert [row["question"] for row in told["rows"]] == questions * 2
    assert all(row["seconds"] > 0 <= row["cpu_seconds"] for row in told["rows"])


@pytest.mark.exhaustive
def test_the_row_of_a_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dry-run", "--rounds", "1", "--pairs", "^tail$", "--save", str(tmp_path)]
    # The allocator that kernels with descriptors need is a context variable, gone with the context.
    assert contextvars.copy_context().run(planted.main, arguments) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[:4] == ["tail", "tail", "right", "right"]
    assert row[-1] == "-"  # the mended kernel has no finding
    assert profscope.load(tmp_path / "tail-faulty.json.gz").findings()["finding"].tolist() == ["tail"]
