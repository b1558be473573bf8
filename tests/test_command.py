"""What all command-line tools do alike, tried on each of them as a user runs it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton

import profscope
from profscope import __main__ as overview
from profscope import errors
from profscope.commands import (
    baseline,
    completion,
    convert,
    doctor,
    explain,
    mcp_server,
    opt,
    run,
    skill,
)
from profscope.demo import __main__ as demo
from profscope.errors import run_command
from profscope.viewer import cli, diff_command

TOOLS = {
    "profscope view": ["-m", "profscope", "view", "--help"],
    "profscope opt": ["-m", "profscope", "opt", "--list"],
    "profscope": ["-m", "profscope", "--help"],
    "profscope.demo": ["-m", "profscope.demo", "--help"],
}


def shell(arguments: list[str], ending: str) -> subprocess.CompletedProcess[str]:
    """Run python with a redirection or a pipe behind it; the status is python's."""
    # Unbuffered, argparse itself meets the error of a write, and swallows it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command_line = ["bash", "-c", f'set -o pipefail; "$@" {ending}', "bash", sys.executable, *arguments]
    return subprocess.run(command_line, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_full_disk_is_one_line_and_a_failure(tool: str) -> None:
    done = shell(TOOLS[tool], ">/dev/full")
    assert (done.returncode, done.stderr) == (1, f"{tool}: No space left on device\n")


def test_a_closed_output_is_one_line_and_a_failure() -> None:
    done = shell(TOOLS["profscope"], ">&-")
    assert (done.returncode, done.stderr) == (1, "profscope: standard output is closed\n")


def test_a_program_runs_though_its_output_is_closed() -> None:
    done = shell(["-m", "profscope", "run", "-c", "import sys; sys.exit(3 * (sys.stdout is None))"], ">&-")
    assert done.returncode == 3
    assert done.stderr == "profscope run: no Triton kernel was launched; nothing is written\n"


def test_a_reader_that_leaves_is_no_failure() -> None:
    done = shell(TOOLS["profscope"], "| true")
    assert (done.returncode, done.stderr) == (0, "")


def raising(error: BaseException) -> Callable[[], int]:
    def body() -> int:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.OptionError("no such\nthing"), 2, "tool: no such thing\n"),
        (errors.PipelineError("unknown pass"), 2, "tool: unknown pass\n"),
        (errors.TraceError("t.json is text"), 1, "tool: t.json is text\n"),
        (errors.IRError("not TTGIR", "x.ttgir", 3), 1, "tool: x.ttgir:3: not TTGIR\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 1, "tool: No such file or directory: 'x'\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_codes_and_one_line(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("tool", raising(error)) == code
    assert capsys.readouterr() == ("", said)


def test_a_mistake_in_the_tool_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        run_command("tool", raising(KeyError("x")))


def test_the_overview_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert overview.main([]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"profscope {profscope.__version__}: " in said
    assert "profscope doctor say what this machine allows" in said
    pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    for script in pyproject["project"]["scripts"]:
        assert f" {script} " in said


@pytest.mark.parametrize(
    "name", ["run", "view", "explain", "diff", "convert", "merge", "doctor", "opt", "completion"]
)
def test_the_help_of_a_subcommand_speaks_of_that(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        overview.main([name, "--help"])
    said = capsys.readouterr().out
    assert said.startswith(f"usage: profscope {name} ")
    with pytest.raises(SystemExit, match="2"):
        overview.main([name, "--no-such-option"])
    assert f"profscope {name}: error: " in capsys.readouterr().err


def test_the_version_is_a_line_or_what_a_bug_report_begins_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert overview.main(["--version"]) == 0
    assert capsys.readouterr().out == f"profscope {profscope.__version__}\n"
    assert overview.main(["--version", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["profscope", "python", "torch", "triton", "gpus", "driver"]
    assert (told["profscope"], told["python"]) == (profscope.__version__, platform.python_version())
    assert (told["torch"], told["triton"]) == (torch.__version__, triton.__version__)
    assert bool(told["gpus"]) is torch.cuda.is_available()
    with pytest.raises(SystemExit, match="2"):
        overview.main(["--json"])


def test_a_file_in_place_of_a_subcommand_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, command_line in (("train.py", "run train.py"), ("t.json", "view t.json")):
        Path(name).touch()
        with pytest.raises(SystemExit, match="2"):
            overview.main([name])
        said = f"error: {name!r} is a file and no command: profscope {command_line}"
        assert said in capsys.readouterr().err


def test_the_demo_writes_a_trace_of_two_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "GPU_SIZES", (64, 64, 64, 32))
    monkeypatch.setattr(demo, "EMULATOR_SIZES", (64, 64, 64, 32))
    assert demo.main([str(tmp_path / "trace.json")]) == 0
    profile = profscope.load(tmp_path / "trace.json")
    assert profile.launches["kernel"].tolist() == ["softmax_kernel", "matmul_kernel"]
    found = profile.findings().set_index("finding")["kernel"]
    assert found["few-stages"] == "matmul_kernel"
    assert not profile.df.empty


# Help is written for a command line, not taken from Python.

PARSERS = {
    "run": run.make_parser()[0],
    "explain": explain.make_parser()[0],
    "view": cli.make_parser(),
    "diff": diff_command.make_parser(),
    "baseline": baseline.make_parser(),
    "convert": convert.make_parser("convert"),
    "merge": convert.make_parser("merge"),
    "doctor": doctor.make_parser(),
    "mcp": mcp_server.make_parser(),
    "skill": skill.make_parser(),
    "opt": opt.make_parser(),
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
