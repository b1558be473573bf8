"""`--show breakdown` and `--show limits`: the rows of the questions of these names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profscope.profiles import load
from profscope.viewer.cli import main
from tests.support.sessions import launch_add, session

MATMUL = Path(__file__).parents[1] / "data" / "diff" / "matmul-1-stage.pftrace.gz"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_the_breakdown_is_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    table = load(MATMUL).breakdown()
    rows = json.loads(shown(capsys, str(MATMUL), "--show", "breakdown", "--format", "json"))["breakdown"]
    assert [row["share"] for row in rows] == table["share"].tolist()
    text = shown(capsys, str(MATMUL), "--show", "breakdown", "--top", "2", "--width", "80")
    head, first, *_ = text.splitlines()[1:]
    assert head.split() == ["part", "reason", "line", "share", "from"]
    largest = table.loc[table["share"].idxmax()]
    assert first.split()[0] == largest["part"]
    assert f"{100 * largest['share']:.1f}%" in first
    assert text.splitlines()[-1] == f"{len(table) - 2} more parts; --top 0 shows them"
    assert shown(capsys, str(MATMUL), "--show", "breakdown", "--format", "csv").count("\n") == len(table) + 1


def test_limits_of_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with session() as prof:
        launch_add()
    path = tmp_path / "t.json"
    prof.save(path)
    text = shown(capsys, str(path), "--show", "limits", "--width", "80")
    assert all(str(resource) in text for resource in prof.limits()["resource"])


def test_no_limits_say_what_would_give_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(MATMUL), "--show", "limits"]) == 1
    assert "no limits are known: `profscope run --evidence true` measures what" in capsys.readouterr().err
