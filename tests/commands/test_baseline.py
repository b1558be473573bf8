"""`profscope baseline` and `profscope diff --against`."""

from __future__ import annotations

from pathlib import Path

import pytest

import profscope
from profscope.__main__ import main
from tests.support.edited import run_of_matmul, slowed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with two traces."""
    monkeypatch.chdir(tmp_path)
    run_of_matmul(0).save("before.parquet")
    slowed(run_of_matmul(1), "dot", 1.5).save("slower.json.gz")
    return tmp_path


def test_a_trace_is_kept_until_it_is_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "save", "main", "before.parquet"]) == 0
    kept = folder / ".profscope" / "baselines" / "main.pftrace.gz"
    assert profscope.load(kept).df.equals(profscope.load("before.parquet").df)
    assert main(["diff", "--against", "main", "slower.json.gz", "--top", "1", "--fail-above", "5%"]) == 3
    assert main(["diff", "--top", "1", "slower.json.gz", "--against=main", "--fail-above", "5%"]) == 3
    assert main(["baseline", "save", "main", "slower.json.gz"]) == 0
    assert main(["diff", "--against", "main", "slower.json.gz", "--fail-above", "5%"]) == 0
    capsys.readouterr()
    assert main(["baseline", "list"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("main: ")
    assert "1 kernel, 8 launches" in line
    assert main(["baseline", "rm", "main"]) == 0
    assert not kept.exists()
    assert main(["baseline", "list"]) == 0
    assert capsys.readouterr().out == "no baselines in .profscope/baselines\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["baseline", "rm", "main"],
            1,
            "'main' in .profscope/baselines; there are: none",
        ),
        (["diff", "--against", "main", "slower.json.gz"], 1, "there is no baseline 'main'"),
        (["baseline", "save", "../main", "before.parquet"], 2, "'../main' is no name of a baseline"),
        (["baseline", "save", "main", "nowhere.json"], 1, "nowhere.json"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
