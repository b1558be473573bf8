"""What there is: commands, versions, and where kernels can be recorded.

python -m profscope
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from typing import Final

from instrument_passes.command import run
from profscope.errors import SessionError
from profscope.installed import EXTRAS, missing, version
from profscope.version import __version__

__all__ = ["main"]

_COMMANDS: Final = (
    ("profscope-view TRACE", "show a trace in the terminal"),
    ("profscope-opt FILE.ttgir -p PASSES", "run passes on a printed TTGIR module"),
    ("python -m profscope.demo TRACE.json", "profile two kernels and save their trace"),
)
_PURPOSES: Final = {"triton": "to record kernels", "dev": "to work on profscope itself"}
_PACKAGES: Final = ("numpy", "pandas", "rich", "triton", "torch")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run("profscope", lambda: _main(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m profscope",
        description="Say what there is: commands, versions, and where kernels can be recorded.",
    )
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
    """A blank line, the title, and its rows with their second parts below each other."""
    width = max(len(name) for name, _ in rows) + 2
    return ["", title, *(f"  {name:{width}}{text}" for name, text in rows)]


def _version(package: str) -> tuple[str, str]:
    installed = version(package)
    return package, "not installed" if installed is None else installed or "of unknown version"


def _gpu() -> str:
    """The GPU that a session would record on, or why there is none."""
    from profscope.recording.backend import select

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
