"""`--show breakdown`, `limits` and `experiments`: the rows of the questions and table of these names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from profscope.profiles import Profile, load
from profscope.viewer.cli import main
from tests.support.experiments import experiment
from tests.support.sessions import launch_add, session

MATMUL = Path(__file__).parents[1] / "data" / "diff" / "matmul-1-stage.pftrace.gz"
COLUMN = Path(__file__).parents[1] / "data" / "evidence" / "column.pftrace.gz"


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


def test_limits_are_those_of_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(COLUMN), "--show", "limits", "--width", "80")
    resources = load(COLUMN).limits()["resource"]
    assert len(resources)
    assert all(str(resource) in text for resource in resources)
    with session() as prof:
        launch_add()
    path = tmp_path / "t.json"
    prof.save(path)
    assert main([str(path), "--show", "limits"]) == 1
    assert "not modelled on the emulator" in capsys.readouterr().err


def test_without_experiments_the_view_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with session(evidence=["experiments"]) as prof:
        launch_add()
        launch_add()
    (why,) = prof.metadata["evidence"]["not_measured"]
    assert why == "no experiments of a configuration that had too few launches (4 are needed): add_kernel"
    assert why in prof.findings().attrs["not_measured"]
    path = tmp_path / "t.json"
    prof.save(path)
    assert main([str(path), "--show", "experiments"]) == 1
    assert why in capsys.readouterr().err
    assert "--show experiments" not in shown(capsys, str(path))
    table = experiment("load", "off", (20.0, 19.0, 21.0), kernel="add_kernel")
    Profile.of(replace(prof.tables, experiments=table)).save(path)
    assert "More: --show experiments (" in shown(capsys, str(path), "--width", "100")


def test_experiments_are_shown_what_saves_most_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prof = load(MATMUL)
    kernel = prof.launches["kernel"].iloc[0]
    table = pd.concat(
        [
            experiment("load \x1b[31m", "off", (20.0, 19.0, 21.0), kernel=kernel),
            experiment("dot", "off", (1.0, 0.5, 1.5), kernel=kernel),
            experiment("store", "contiguous", (80.0, 79.4, 81.0), kernel=kernel, valid=False),
            experiment("load b", "off", kernel="ran bare"),
        ],
        ignore_index=True,
    )
    path = tmp_path / "t.json"
    Profile.of(replace(prof.tables, experiments=table)).save(path)
    lines = shown(capsys, str(path), "--show", "experiments", "--width", "60").splitlines()
    assert lines[0] == f"experiments  {kernel}"
    assert lines[3:6] == [
        r"  20.0 %  (19 to 21)    off         load \x1b[31m k.py:7",
        "  80.0 %  (79 to 81)    contiguous  store k.py:7  [not",
        "          valid: other spills]",
    ], "valid ones first"
    assert lines[6] == "1 more saves less than 2 %; --top 0 shows all"
    assert "experiments  ran bare" in lines
    assert "   1.0 %" in shown(capsys, str(path), "--show", "experiments", "--top", "0")
    rows = json.loads(shown(capsys, str(path), "--show", "experiments", "--format", "json"))["experiments"]
    assert [row["time_kcycles"] for row in rows] == [None] * 4
    assert shown(capsys, str(path), "--show", "experiments", "--format", "csv").count("\n") == 5
