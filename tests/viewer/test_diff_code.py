"""profscope diff --show code and --pair, as they are run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import profscope
from tests.kernels.matmul import matmul_kernel
from tests.support.command_line import run
from tests.support.sessions import session


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """By num_stages."""
    folder = tmp_path_factory.mktemp("code")
    for stages in (1, 3):
        matmul_of(stages).save(folder / f"{stages}.json.gz")
    return {stages: str(folder / f"{stages}.json.gz") for stages in (1, 3)}


def matmul_of(stages: int) -> profscope.Session:
    """Two launches."""
    a, b = (torch.ones(64, 64, dtype=torch.float16) for _ in "ab")
    c = torch.empty(64, 64, dtype=torch.float16)
    tiles = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 8}
    with session() as prof:
        for _ in range(2):
            matmul_kernel[(4,)](a, b, c, *(64,) * 6, **tiles, num_stages=stages, num_warps=2)
    return prof


def test_the_code_takes_the_place_of_rows(traces: dict[int, str]) -> None:
    done = run("diff", traces[1], traces[3], "--show", "code", "--top", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    told = next(at for at, line in enumerate(lines) if line.startswith("      %  of a launch of A"))
    assert lines[told + 1].endswith("  num_stages: 1 -> 3")
    assert re.fullmatch(r"unexplained: [\d.]+ of -[\d.]+ %", lines[-1])
    assert all(len(line) <= 80 for line in lines)
    assert not any(line.startswith("scope ") for line in lines)


def test_the_first_screen_names_causes_in_the_code(traces: dict[int, str]) -> None:
    done = " ".join(run("diff", traces[1], traces[3], "--top", "2").stdout.split())
    assert re.search(r"Code: num_stages: 1 -> 3; matmul.py:3[45] asynchronous: no -> cp.async; iter", done)
    assert "more with --show code" in done
    assert "Code:" not in run("diff", traces[3], traces[3]).stdout


def test_without_texts_only_the_kernel_as_a_whole_is_compared() -> None:
    data = Path(__file__).parents[1] / "data" / "diff"
    files = [str(data / f"matmul-{name}.pftrace.gz") for name in ("1-stage", "3-stages-0")]
    told = run("diff", *files, "--show", "code").stdout
    assert "num_stages: 1 -> 3" in told
    assert "code: lines are not compared: a profile has no TTGIR" in told
    assert "unexplained" not in told


def test_json_has_the_facts(traces: dict[int, str]) -> None:
    (kernel,) = json.loads(run("diff", traces[1], traces[3], "--show", "code", "--format", "json").stdout)[
        "kernels"
    ]
    first = kernel["code"]["changes"][0]
    assert (first["fact"], first["a"], first["b"], first["line"]) == ("num_stages", "1", "3", 0)
    assert kernel["code"]["percent"] == pytest.approx(kernel["launch"]["percent"])


def test_unchanged_code_is_said(traces: dict[int, str]) -> None:
    done = run("diff", traces[3], traces[3], "--show", "code")
    assert "the compiled code is the same" in done.stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--pair", "matmul_kernel"], 2, "is not OLD=NEW"),
        (["--pair", "matmul=matmul_kernel"], 1, "no kernel matmul; it has matmul_kernel"),
    ],
)
def test_wrong_pairs(traces: dict[int, str], words: list[str], status: int, says: str) -> None:
    done = run("diff", traces[1], traces[3], *words)
    assert done.returncode == status
    assert says in done.stderr
