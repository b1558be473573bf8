"""The help of each command is written for a command line, not taken from Python."""

from __future__ import annotations

import argparse
import re

import pytest

from profscope import __main__ as overview
from profscope.commands import (
    baseline,
    compile_diff,
    completion,
    convert,
    doctor,
    explain,
    mcp_server,
    opt,
    run,
    skill,
)
from profscope.viewer import cli, diff_command

PARSERS = {
    "run": run.make_parser()[0],
    "explain": explain.make_parser()[0],
    "view": cli.make_parser("profscope view"),
    "diff": diff_command.make_parser("profscope diff"),
    "compile-diff": compile_diff.make_parser(),
    "baseline": baseline.make_parser(),
    "convert": convert.make_parser("convert", "IN OUT", "", convert.CONVERT),
    "merge": convert.make_parser("merge", "TRACE... -o OUT", "", convert.MERGE),
    "doctor": doctor.make_parser(),
    "mcp": mcp_server.make_parser(),
    "skill": skill.make_parser(),
    "opt": opt.make_parser("profscope opt"),
    "completion": completion.make_parser(),
}
_PYTHON = re.compile(r"\b[a-z_]+=|\b(True|False|None)\b|`?--[\w-]+`? (True|False)")


def actions() -> list[tuple[str, argparse.Action]]:
    return [(name, action) for name, parser in PARSERS.items() for action in parser._actions]


@pytest.mark.parametrize(("command", "action"), actions(), ids=lambda each: getattr(each, "dest", each))
def test_each_flag_says_what_it_does(command: str, action: argparse.Action) -> None:
    text = action.help or ""
    assert text, command
    assert not _PYTHON.search(text), text
    assert not text.endswith(".")
    assert text[0].islower() or text.split()[0].isupper() or text.startswith("MiB"), text


@pytest.mark.parametrize("command", PARSERS)
def test_the_help_fits_a_terminal_and_has_an_example(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PARSERS[command].format_help()
    assert max(map(len, [*text.splitlines(), *overview.make_parser().format_help().splitlines()])) <= 80
    assert f"\nexamples:\n  profscope {command} " in text
    assert "\nexit status: " in text
