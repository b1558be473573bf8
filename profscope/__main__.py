"""The command `profscope`: runs programs, and hands over to the other commands.

profscope run script.py
profscope               # the commands that there are
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from profscope.errors import run_command
from profscope.installed import version
from profscope.version import __version__

__all__ = ["main", "make_parser"]

_COMMANDS: Final = (
    ("profscope run PROGRAM", "run a program and record its kernels"),
    ("profscope view TRACE", "show a trace, as profscope-view does"),
    ("profscope explain PROGRAM", "run a program, then explain one kernel"),
    ("profscope diff A B", "compare two traces"),
    ("profscope compile-diff KERNEL", "compare what two Tritons make of a kernel"),
    ("profscope baseline ACTION", "keep traces by name, for diff --against"),
    ("profscope convert IN OUT", "write a trace in another format"),
    ("profscope merge TRACE... -o OUT", "write the traces of several ranks as one"),
    ("profscope doctor", "say what this machine allows, and what to do"),
    ("profscope mcp [FOLDER]", "serve traces to an agent (MCP)"),
    ("profscope skill", "print instructions for an agent (SKILL.md)"),
    ("profscope completion SHELL", "print completions for bash, zsh or fish"),
    ("profscope opt FILE.ttgir", "run passes on TTGIR"),
    ("python -m profscope.demo TRACE", "profile two kernels and save their trace"),
)


class _Door(NamedTuple):
    """The module whose `main` takes the words behind a subcommand, and the words that it gets before them,
    as does its `make_parser`."""

    module: str
    before: tuple[str, ...] = ()


_DOORS: Final = {
    "run": _Door("profscope.commands.run"),
    "view": _Door("profscope.viewer.cli"),
    "explain": _Door("profscope.commands.explain"),
    "diff": _Door("profscope.viewer.cli", ("diff",)),
    "compile-diff": _Door("profscope.commands.compile_diff"),
    "baseline": _Door("profscope.commands.baseline"),
    "convert": _Door("profscope.commands.convert", ("convert",)),
    "merge": _Door("profscope.commands.convert", ("merge",)),
    "doctor": _Door("profscope.commands.doctor"),
    "mcp": _Door("profscope.commands.mcp_server"),
    "skill": _Door("profscope.commands.skill"),
    "opt": _Door("profscope.commands.opt"),
    "completion": _Door("profscope.commands.completion"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in _DOORS:
        door = _DOORS[words[0]]
        called = {"doors": _DOORS} if words[0] == "completion" else {}
        return int(import_module(door.module).main([*door.before, *words[1:]], **called))
    return run_command("profscope", lambda: _overview(words))


def _check(words: Sequence[str]) -> argparse.Namespace:
    """Ends the process at a wrong word; where that is a file, it says which commands take one."""
    parser = make_parser()
    if words and Path(words[0]).exists():
        does = "run" if words[0].endswith(".py") else "view"
        parser.error(f"{words[0]!r} is a file and no command: profscope {does} {words[0]}")
    given = parser.parse_args(words)
    if given.json and not given.version:
        parser.error("--json goes with --version")
    return given


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope",
        description="See where each warp's time goes inside a Triton GPU kernel.",
        epilog="\n".join(["commands, each with a --help of its own:", *_rows()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", choices=_DOORS, metavar="command", help=", ".join(_DOORS))
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument(
        "--json",
        action="store_true",
        help="with --version: also of Python, torch, Triton and driver; GPUs",
    )
    return parser


def _versions() -> dict[str, Any]:
    """What a bug report begins with. None: not installed, or not there."""
    from profscope.device.gpus import driver_version, gpus

    try:
        names = [each.name for each in gpus()]
    except (OSError, RuntimeError):
        names = []
    told: dict[str, Any] = {"profscope": __version__, "python": platform.python_version()}
    told |= {package: version(package) for package in ("torch", "triton")}
    return told | {"gpus": names, "driver": driver_version() or None}


def _overview(words: Sequence[str]) -> int:
    """The versions, or what there is, without a command."""
    given = _check(words)
    if given.version:
        sys.stdout.write(f"{json.dumps(_versions()) if given.json else f'profscope {__version__}'}\n")
        return 0
    title = f"profscope {__version__}: see where each warp's time goes inside a Triton GPU kernel"
    code = ["  with profscope.session() as prof:", "      kernel[grid](...)", "  prof.summary()"]
    lines = [title, "", "In Python", *code, "", "Commands", *_rows()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _rows() -> list[str]:
    """The commands with what they do below each other."""
    width = max(len(name) for name, _ in _COMMANDS) + 2
    return [f"  {name:{width}}{does}" for name, does in _COMMANDS]


if __name__ == "__main__":
    sys.exit(main())
