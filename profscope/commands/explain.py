"""`profscope explain`: run a program, then explain the kernel that takes most of its time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from instrument_passes.command import run
from profscope.commands.program import Program, program, without_ours
from profscope.commands.run import split_words
from profscope.emulator.without_gpu import say_how
from profscope.installed import require
from profscope.tuning.explaining import check_limit

__all__ = ["main", "make_parser"]

_USAGE: Final = "profscope explain [options] (script.py | -m module | -c code) [arguments]"
_EPILOG: Final = """\
examples:
  profscope explain train.py --epochs 1
  profscope explain --kernel attention_kernel -m pytest tests/test_attention.py

exit status: the program's own if it fails, and then nothing is explained; 2 for
wrong usage or a kernel that was not launched; 1 for another error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run("profscope explain", lambda: _explain(words))


def _explain(words: list[str]) -> int:
    parser, valued = make_parser()
    flags, how, rest = split_words(words, valued)
    given = parser.parse_args(flags)
    if not rest or (not how and not rest[0]):
        parser.error("name a program: script.py, -m module or -c code")
    check_limit(given.limit_s)
    chosen = program(how, rest)
    if chosen.is_launcher:
        parser.error(f"{chosen.name} starts other processes: name the program of one rank")
    require("triton", "profscope explain")
    from profscope.device.backend import select
    from profscope.tuning.program_launches import ProgramLaunches
    from profscope.tuning.search import explained

    with select("auto") as machine:
        launches = ProgramLaunches()
        with launches.kept():
            code = _exit_code(chosen)
        if code:
            return code
        launch = launches.biggest(given.kernel, machine)
        explanation = explained(launch, {}, given.limit_s, "auto")
    sys.stdout.write(f"{explanation!r}\n")
    return 0


def _exit_code(chosen: Program) -> int:
    """Run the program; its exit code. An error is shown as by itself."""
    try:
        chosen.run()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            sys.stderr.write(f"{stop.code}\n")
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the program's
        say_how(error)
        error = error.with_traceback(without_ours(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def make_parser() -> tuple[argparse.ArgumentParser, set[str]]:
    """The parser of all before the program, and its flags that take a value."""
    parser = argparse.ArgumentParser(
        prog="profscope explain",
        usage=_USAGE,
        description="Run a program, unchanged, then diagnose one of its kernels and try other options.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kernel = parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="kernel to explain (default: the one that takes most time); of several configurations the one "
        "that takes most",
    )
    limit = parser.add_argument(
        "--limit-s",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="start no other try after this many seconds (default: 60)",
    )
    parser.add_argument("-m", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("-c", metavar="CODE", help="run code, as python -c does")
    return parser, {text for each in (kernel, limit) for text in each.option_strings}
