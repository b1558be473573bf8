"""PROFSCOPE_RUN_*: defaults of `profscope run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profscope import __main__ as door
from profscope import load
from profscope.commands.doctor import environment
from profscope.commands.run import make_parser
from profscope.commands.run_variables import run_defaults
from profscope.errors import OptionError

ACTIONS = make_parser()[1]


def test_each_flag_has_a_variable() -> None:
    given = {
        "PROFSCOPE_RUN_CTAS": "0,17",
        "PROFSCOPE_RUN_OVERHEAD_PCT": "2.5",
        "PROFSCOPE_RUN_EVIDENCE": "false",
        "PROFSCOPE_RUN_EVENTS": "true",
        "PROFSCOPE_RUN_OUTPUT": "mine.json",
        "PROFSCOPE_RUN_KERNELS": "",
        "PROFSCOPE_JOB": "7",
    }
    found = run_defaults(ACTIONS, given)
    assert found == {
        "ctas": [0, 17], "overhead_pct": 2.5, "evidence": False, "events": True, "output": "mine.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PROFSCOPE_RUN_CTAS", "many", "'many' is not a number, 1 or more, or a list, such as 0,17"),
        ("PROFSCOPE_RUN_EVIDENCE", "counts,seconds:abc", "'seconds:abc': S of seconds:S is more than 0"),
        ("PROFSCOPE_RUN_EVENTS", "1", "'1' is not true or false"),
        ("PROFSCOPE_RUN_CTA", "1", "there are only PROFSCOPE_RUN_OUTPUT, PROFSCOPE_RUN_QUIET, "),
        ("PROFSCOPE_RUN_NO_EVIDENCE", "true", "there are only PROFSCOPE_RUN_OUTPUT, PROFSCOPE_RUN_QUIET, "),
    ],
)
def test_a_bad_variable_is_named(variable: str, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        run_defaults(ACTIONS, {variable: text})
    assert str(caught.value).startswith(f"{variable}: ")
    assert said in str(caught.value)


def test_a_bad_variable_ends_the_command_before_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROFSCOPE_RUN_MEMORY", "1")
    assert door.main(["run", "-c", "raise AssertionError"]) == 2
    assert "profscope run: PROFSCOPE_RUN_MEMORY: there are only PROFSCOPE_RUN_" in capsys.readouterr().err


def test_doctor_lists_what_is_set() -> None:
    assert environment({"PROFSCOPE_RUN_CTAS": "4", "HOME": "/root"}) == {"PROFSCOPE_RUN_CTAS": "4"}


PROGRAM = """
import torch
from tests.kernels.add import add_kernel
x = torch.ones(64)
add_kernel[(4,)](x, x, x, 64, BLOCK=16)
"""


def test_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    variables = {
        "OUTPUT": str(tmp_path / "t.json"),
        "CTAS": "0,2",
        "SPOOL": "",
        "QUIET": "true",
        "EVERY": "2",
    }
    given = {f"PROFSCOPE_RUN_{name}": text for name, text in variables.items()}
    done = subprocess.run(
        [sys.executable, "-m", "profscope", "run", "--every", "1", "-c", PROGRAM],
        capture_output=True, text=True, check=False, env={**os.environ, **given},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    options = load(tmp_path / "t.json").metadata["options"]
    assert (options["ctas"], options["every"]) == ([0, 2], 1)
