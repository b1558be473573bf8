"""`profscope explain`: run a program, then explain the kernel that takes most of its time."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from typing import Any, Final

from profscope.commands.program import OwnImports, Program, before_exec, parse, program_parser, without_ours
from profscope.emulator import say_how
from profscope.errors import run_command
from profscope.installed import require
from profscope.progress import working
from profscope.tuning.search import check_limit
from profscope.viewer.flags import in_flags
from profscope.viewer.option_types import KERNELS, count, pattern

__all__ = ["main", "make_parser"]

_EPILOG: Final = """\
examples:
  profscope explain train.py --epochs 1
  profscope explain train.py --epochs 1 --kernels attention
  profscope explain --kernels attention --vary BLOCK=64,128 -m pytest tests
  profscope explain -- train.py --kernels 3    all behind -- is the program's

exit status: the program's own if it fails, and then nothing is explained; else
0 explained; 1 another error; 2 wrong usage, or a kernel that was not launched
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope explain", lambda: _explain(words), says=in_flags)


def _explain(words: list[str]) -> int:
    parser, actions = make_parser()
    given, chosen = parse(parser, _with_kernel_in_front(words), actions)
    check_limit(given.limit_s)
    if chosen.is_launcher:
        parser.error(f"{chosen.name} starts other processes: name the program of one rank")
    require("triton", "profscope explain")
    from profscope.device.backend import select
    from profscope.tuning.launches import check_vary
    from profscope.tuning.program_launches import ProgramLaunches
    from profscope.tuning.search import explained

    vary = dict(given.vary)
    with select(given.backend) as machine:
        launches = ProgramLaunches(given.kernels, given.memory, machine)
        imports = OwnImports()
        before_exec(_say_replaced)
        with launches.watched():
            code = _exit_code(chosen, imports)
        if code:
            return code
        with imports.apart():
            kept = launches.biggest()
            check_vary(kept.launch, vary)
            with working("explaining: recording, experiments and trials"):
                explanation = explained(
                    kept.launch, vary, given.limit_s, given.backend, kept.contents, kept.note
                )
            sys.stdout.write(f"{in_flags(explanation.text(most_findings=None))}\n")
    return 0


def _say_replaced(call: str, command: str) -> None:
    sys.stderr.write(f"profscope explain: {call} replaces the program by `{command}`; nothing is explained\n")
    sys.stderr.flush()


def _with_kernel_in_front(words: list[str]) -> list[str]:
    """`--kernels NAME` is the command's behind the program, too, but not behind "--"."""
    if "--" in words or "--kernels" not in words[:-1]:
        return words
    at = words.index("--kernels")
    return [*words[at : at + 2], *words[:at], *words[at + 2 :]]


def _values(text: str) -> tuple[str, list[Any]]:
    """ "BLOCK=64,128" as a name and values."""
    name, equals, values = text.partition("=")
    if not name or not equals or not all(each.strip() for each in values.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} has no values; write it like BLOCK=64,128")
    return name, [_value(each.strip()) for each in values.split(",")]


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _exit_code(chosen: Program, imports: OwnImports) -> int:
    """Run the program; its exit code. An error is shown as by itself."""
    try:
        chosen.run(imports)
    except SystemExit as stop:
        if isinstance(stop.code, str):
            sys.stderr.write(f"{stop.code}\n")
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the program's
        say_how(error)
        without_ours(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def make_parser() -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """The parser of all before the program, and its flags."""
    parser = program_parser(
        "explain",
        "Run a program, unchanged; diagnose its slowest kernel and try changes to it.",
        _EPILOG,
    )
    actions = [
        parser.add_argument(
            "--kernels",
            type=pattern,
            metavar="REGEX",
            help=f"{KERNELS}; the one with most time is explained (default: all)",
        ),
        parser.add_argument(
            "--vary",
            action="append",
            default=[],
            type=_values,
            metavar="NAME=VALUE,...",
            help="also try these values of a constexpr, such as BLOCK=64,128; a grid that is no function "
            "stays as it is; may be given several times",
        ),
        parser.add_argument(
            "--backend",
            choices=("auto", "gpu", "emulator"),
            default="auto",
            help="where kernels run; auto is the GPU if there is one (default: auto)",
        ),
        parser.add_argument(
            "--limit-s",
            metavar="SECONDS",
            type=float,
            default=60.0,
            help="start no further trial after this (default: 60)",
        ),
        parser.add_argument(
            "--memory",
            metavar="MIB",
            type=count,
            default=1024,
            help="copy arguments that take at most this much device memory, so that a launch can be repeated "
            "with the contents it had (default: 1024)",
        ),
    ]
    return parser, actions
