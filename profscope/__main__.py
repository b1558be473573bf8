"""The command `profscope`: runs programs, and hands over to the other commands.

profscope run script.py
profscope               # what there is: commands, versions, and where kernels can be recorded
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from profscope.errors import SessionError, run_command
from profscope.installed import EXTRAS, missing, version
from profscope.version import __version__

__all__ = ["main", "make_parser"]

_COMMANDS: Final = (
    ("profscope run PROGRAM", "run a program and record its kernels"),
    ("profscope view TRACE", "show a trace, as profscope-view does"),
    ("profscope explain PROGRAM", "run a program, then explain one kernel"),
    ("profscope diff A B", "compare two traces"),
    ("profscope convert IN OUT", "write a trace in another format"),
    ("profscope merge TRACE... -o OUT", "write the traces of several ranks as one"),
    ("profscope doctor", "say what this machine allows, and what to do"),
    ("profscope mcp [FOLDER]", "serve traces to an agent (MCP)"),
    ("profscope skill", "print instructions for an agent (SKILL.md)"),
    ("profscope opt FILE.ttgir", "run passes on TTGIR, as profscope-opt does"),
    ("python -m profscope.demo TRACE", "profile two kernels and save their trace"),
)


class _Door(NamedTuple):
    """The module whose `main` takes the words behind a subcommand, and the words that it gets before them.
    renamed: it is a command by itself, too, so it is told by which name it is called."""

    module: str
    before: tuple[str, ...] = ()
    renamed: bool = False


_DOORS: Final = {
    "run": _Door("profscope.commands.run"),
    "view": _Door("profscope.viewer.cli", (), renamed=True),
    "explain": _Door("profscope.commands.explain"),
    "diff": _Door("profscope.viewer.cli", ("diff",), renamed=True),
    "convert": _Door("profscope.commands.convert", ("convert",)),
    "merge": _Door("profscope.commands.convert", ("merge",)),
    "doctor": _Door("profscope.commands.doctor.command"),
    "mcp": _Door("profscope.commands.mcp_server"),
    "skill": _Door("profscope.commands.skill"),
    "opt": _Door("profscope.commands.opt", (), renamed=True),
}
_PURPOSES: Final = {
    "triton": "to record kernels",
    "parquet": "to save and load Parquet files",
    "perfetto": "for profscope view --serve without a network",
    "plot": "to draw pictures with prof.plot",
    "mcp": "to serve traces to agents",
    "docs": "to build the site of these pages",
    "dev": "to work on profscope itself",
}
_PACKAGES: Final = ("numpy", "pandas", "rich", "triton", "torch")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in _DOORS:
        door = _DOORS[words[0]]
        called = {"tool": f"profscope {words[0]}"} if door.renamed else {}
        return int(import_module(door.module).main([*door.before, *words[1:]], **called))
    return run_command("profscope", lambda: _main(_parsed(words)))


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Ends the process at a wrong word; where that is a file, it says which commands take one."""
    parser = make_parser()
    if words and Path(words[0]).exists():
        does = "run" if words[0].endswith(".py") else "view"
        parser.error(f"{words[0]!r} is a file and no command: profscope {does} {words[0]}")
    return parser.parse_args(words)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope",
        description="Without a command: the versions, and where kernels can be recorded.",
        epilog="\n".join(["commands, each with a --help of its own:", *_rows(_COMMANDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", choices=_DOORS, metavar="command", help=", ".join(_DOORS))
    parser.add_argument("--version", action="version", version=f"profscope {__version__}")
    return parser


def _main(_: argparse.Namespace) -> int:
    lines = [f"profscope {__version__}: see where each warp's time goes inside a Triton GPU kernel"]
    lines += ["", "In Python"]
    lines += ["  with profscope.session() as prof:", "      kernel[grid](...)", "  prof.summary()"]
    lines += _section("Commands", _COMMANDS)
    lines += _section("Versions", [("python", platform.python_version()), *map(_version, _PACKAGES)])
    lines += _section("Backends", _backends())
    lines += _section("Extras", [(name, _extra(name)) for name in EXTRAS])
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _section(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """A blank line, the title, and its rows."""
    return ["", title, *_rows(rows)]


def _rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Rows with their second parts below each other."""
    width = max(len(name) for name, _ in rows) + 2
    return [f"  {name:{width}}{text}" for name, text in rows]


def _version(package: str) -> tuple[str, str]:
    installed = version(package)
    return package, "not installed" if installed is None else installed or "of unknown version"


def _gpu() -> str:
    """The GPU that a session would record on, or why there is none."""
    from profscope.device.backend import select

    try:
        with select("gpu") as backend:
            device = backend.metadata()["device"]
    except SessionError:
        return "no: torch finds none"
    return f"yes: {device['name']}, {device['arch']}"


def _backends() -> list[tuple[str, str]]:
    lacking = missing("triton")
    if lacking:
        why = f"no: needs {' and '.join(lacking)}"
        return [("gpu", why), ("emulator", why)]
    return [("gpu", _gpu()), ("emulator", "yes: runs PTX for sm_80 on the CPU")]


def _extra(name: str) -> str:
    how = f"pip install 'profscope[{name}]'" if missing(name) else "installed,"
    return f"{how} {_PURPOSES[name]}"


if __name__ == "__main__":
    sys.exit(main())
