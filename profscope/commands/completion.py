"""`profscope completion SHELL`: a script that completes commands, flags and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from profscope.errors import exit_status, run_command
from profscope.installed import require
from profscope.version import __version__

__all__ = ["main", "make_parser"]

_FILES: Final = ("FILE", "TRACE", "IN", "OUT", "A", "B")  # what parsers call them
_RUN_PROGRAMS: Final = ("run", "explain")
_EPILOG: Final = f"""\
examples:
  profscope completion bash >> ~/.bash_completion
  profscope completion zsh > ~/.zfunc/_profscope
  profscope completion fish > ~/.config/fish/completions/profscope.fish

{exit_status("printed", "shtab is not installed, or output that cannot be written")}
"""


def main(arguments: Sequence[str] | None = None, *, doors: Mapping[str, Any]) -> int:
    """Run the command; returns the exit code. doors: by command, its `module`, and words `before` its own."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope completion", lambda: _completion(words, doors))


def _completion(words: Sequence[str], doors: Mapping[str, Any]) -> int:
    shell = make_parser().parse_args(words).shell
    require("completion", "profscope completion")
    import shtab

    whole = argparse.ArgumentParser(prog="profscope")
    commands = whole.add_subparsers()
    for name, door in doors.items():
        made = import_module(door.module).make_parser(*door.before)
        parser = made[0] if isinstance(made, tuple) else made
        told = commands.add_parser(name, parents=[parser], add_help=False, help=parser.description)
        if name in _RUN_PROGRAMS:
            told.add_argument("program", nargs="*")
        for action in told._actions:
            if action.metavar in _FILES or not (action.option_strings or action.choices):
                vars(action)["complete"] = shtab.FILE
    sys.stdout.write(shtab.complete(whole, shell) + "\n")
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope completion",
        description="Print a script that completes commands, flags and files in a shell.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser
