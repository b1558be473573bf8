"""What the commands that run a program have alike: `profscope COMMAND [options] PROGRAM [arguments]`.

profscope run --ctas 1 train.py --epochs 1     flags end where the program begins
profscope run -m pytest tests
profscope run -c 'import model; model.step()'
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from profscope.commands.program import Program, program
from profscope.version import __version__

__all__ = ["parse", "program_parser"]


def program_parser(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser of the flags before a program, which a command adds its own to."""
    parser = argparse.ArgumentParser(
        prog=f"profscope {command}",
        usage=f"profscope {command} [options] (SCRIPT | -m MODULE | -c CODE) [arguments]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("-m", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("-c", metavar="CODE", help="run code, as python -c does")
    return parser


def parse(
    parser: argparse.ArgumentParser, words: list[str], actions: Sequence[argparse.Action]
) -> tuple[argparse.Namespace, Program]:
    """A command's flags, and the program. actions: of the flags that the command added.

    Ends the process at wrong usage; raises OptionError where there is no such script.
    """
    valued = {text for action in actions if action.nargs != 0 for text in action.option_strings}
    flags, how, rest = _split(words, valued)
    given = parser.parse_args(flags)
    if not rest or (not how and not rest[0]):
        parser.error("name a program: a script, -m module or -c code")
    return given, program(how, rest)


def _split(words: list[str], valued: set[str]) -> tuple[list[str], str, list[str]]:
    """The command's own flags; "", "-m" or "-c"; the program and its arguments, untouched.

    valued: flags that take the next word.
    """
    at = 0
    while at < len(words):
        word = words[at]
        if word[:2] in ("-m", "-c"):
            joined = [word[2:]] if len(word) > 2 else []
            return words[:at], word[:2], [*joined, *words[at + 1 :]]
        if word == "--":
            return words[:at], "", words[at + 1 :]
        if not word.startswith("-") or word == "-":
            return words[:at], "", words[at:]
        at += 2 if word in valued else 1
    return words, "", []
