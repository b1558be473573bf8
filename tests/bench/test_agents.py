"""The harness for agents: what it judges as solved, and what not."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.agents.__main__ import main
from bench.agents.follow import chosen
from bench.agents.tasks import OPTION_HELPS, TASKS, write_task
from bench.corpus.cases import CASES

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="sizes are those of the emulator")
FEWER_WARPS = """sed -i 's/^GRID/OPTIONS["num_warps"] = 8\\nGRID/' kernel.py"""
NOTHING = "sed -i 's/^    .*GRID.*OPTIONS.$/    pass/' kernel.py"


def rows_of(agent: str, out: Path) -> list[dict[str, Any]]:
    assert main(["--agent", agent, "--tasks", "^short row", "--small", "--out", str(out)]) == 0
    rows: list[dict[str, Any]] = json.loads((out / "rows.json").read_text())
    return rows


def test_there_are_twelve_tasks_of_the_corpus_that_hide_their_fault(tmp_path: Path) -> None:
    assert len(set(TASKS)) == 12
    assert {*OPTION_HELPS} <= {*TASKS} <= {*CASES}
    for name in TASKS:
        write_task(name, tmp_path / name, small=True)
        text = (tmp_path / name / "kernel.py").read_text()
        ast.parse(text)
        assert "fault" not in text
        assert re.search(r"\n@triton.jit\ndef \w+\(", text)


def test_faster_with_equal_results_is_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows_of(FEWER_WARPS, tmp_path)
    assert row["solved"]
    assert row["same_results"]
    assert row["now"] < row["before"]
    assert "1 of 1 solved" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_a_kernel_that_does_nothing_is_not_solved(tmp_path: Path) -> None:
    (row,) = rows_of(NOTHING, tmp_path)
    assert "pass" in (tmp_path / "short-row-of-32-warps" / "kernel.py").read_text()
    assert not row["same_results"]
    assert not row["solved"]


@pytest.mark.exhaustive
def test_an_agent_that_breaks_the_checker_or_the_kernel_is_not_believed(tmp_path: Path) -> None:
    (row,) = rows_of("echo 'print(1' > kernel.py; echo > check.py; exit 3", tmp_path)
    assert (row["agent"], row["solved"]) == (3, False)
    assert row["error"].startswith("SyntaxError")


def test_the_scripted_agent_reads_the_last_line_of_explain() -> None:
    assert chosen("a\nbest: num_warps=8, maxnreg=None, 18.9 % less time\n") == {
        "num_warps": 8,
        "maxnreg": None,
    }
    assert chosen("a\nbest: as launched; nothing that was tried is faster, with the same results\n") == {}
