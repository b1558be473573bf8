"""`profscope diff`: the changes from one trace to another.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from profscope.analysis.texts import percentage
from profscope.errors import DiffError, OptionError, exit_status
from profscope.traces.baselines import FOLDER, saved_baseline
from profscope.version import __version__
from profscope.viewer.option_types import (
    KERNELS,
    TRACE,
    add_width,
    check_there,
    count,
    pattern,
)
from profscope.viewer.units import printable

if TYPE_CHECKING:
    from profscope.viewer.comparison import Comparison

__all__ = ["NOT_JUDGED", "REGRESSED", "diff_main", "make_parser"]

REGRESSED = 3
"""The exit status where a kernel has become slower by more than --fail-above allows."""

NOT_JUDGED = 4
"""The exit status if --fail-above cannot judge more than 5 % of either side's time."""

EPILOG = f"""\
examples:
  profscope diff before.json after.json
  profscope diff before.json after.json --kernels matmul
  profscope diff before.json after.json --fail-above 5%
  profscope diff before.json after.json --show code
  profscope diff --against main after.json --format md

Launches are compared with launches of the same kernel, constexprs and grid, or
the nearest ones. Changes up to what launches, builds and sessions of the same
code differ by are noise; docs/diff.md has the statistics.

{
    exit_status(
        "shown",
        "a trace that cannot be read, or nothing to compare or judge",
        f"{REGRESSED} a kernel is slower by more than --fail-above and than noise",
        f"{NOT_JUDGED} --fail-above cannot judge more than 5 % of the time; stderr says what",
    )
}
"""


def diff_main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    is_named = any(word.partition("=")[0] == "--against" for word in arguments)
    parser = make_parser(is_named=is_named)
    options = parser.parse_args(arguments)
    if options.format == "md" and options.show == "code":
        parser.error("--format md has no code: leave --show code out, or take --format json")
    if is_named:
        options.a = str(saved_baseline(FOLDER, options.against))
    check_there(options.a, options.b)
    from profscope.viewer.comparison import compare  # behind the command line: pandas takes its time

    comparison = compare(options)
    _print(comparison, options)
    if options.fail_above is not None:
        _tell_not_judged(comparison)
    if comparison.has_regressed:
        return REGRESSED
    return NOT_JUDGED if comparison.leaves_open else 0


def _print(comparison: "Comparison", options: argparse.Namespace) -> None:
    from rich.text import Text

    from profscope.viewer.comparison import render
    from profscope.viewer.diff_markdown import markdown
    from profscope.viewer.outlet import print_json, print_lines, text_width

    if options.format == "json":
        print_json(asdict(comparison))
    elif options.format == "md":
        print_lines([Text(line) for line in markdown(comparison)], None)
    else:
        width = text_width(options.width)
        print_lines(render(comparison, width), width)


def _tell_not_judged(comparison: "Comparison") -> None:
    """On stderr, what the gate did not judge. Raises DiffError if that is everything."""
    from profscope.analysis.comparing.gate import LEFT_OPEN, NOTHING_JUDGED, is_judged, not_judged

    for line in not_judged(comparison.program):
        sys.stderr.write(f"{printable(f'not judged: {line}')}\n")
    if comparison.leaves_open:
        sys.stderr.write(f"{LEFT_OPEN}, so --fail-above fails\n")
    if not any(each["launch"] is not None and is_judged(each["launch"]) for each in comparison.kernels):
        raise DiffError(f"--fail-above has {NOTHING_JUDGED}")


def make_parser(*, is_named: bool = False) -> argparse.ArgumentParser:
    """is_named: whether A is a baseline that --against names."""
    parser = argparse.ArgumentParser(
        prog="profscope diff",
        usage=f"profscope diff [options] {'--against NAME B' if is_named else 'A B'}",
        description="Show what has changed from trace A to trace B, and which changes are noise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not is_named:
        parser.add_argument("a", metavar="A", help=TRACE)
    parser.add_argument("b", metavar="B", help="the trace to compare with A")
    parser.add_argument(
        "--against", metavar="NAME", help=f"compare with this baseline of {FOLDER} in place of A"
    )
    parser.add_argument(
        "--fail-above",
        type=_percent,
        metavar="N%",
        help=f"exit with {REGRESSED} if a kernel is slower by more than this and than noise",
    )
    parser.add_argument("--kernels", type=pattern, metavar="REGEX", help=KERNELS)
    parser.add_argument(
        "--pair", type=_pair, action="append", default=[], metavar="OLD=NEW",
        help="compare kernel OLD of A with kernel NEW of B; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--show", choices=("rows", "code"), default="rows",
        help="rows of time, or what differs in the compiled code and what it costs (default: rows)",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=count, default=20, metavar="N", help="rows for each kernel; 0: all (default: 20)"
    )
    add_width(parser)
    parser.add_argument(
        "--format",
        choices=("table", "json", "md"),
        default="table",
        help="json has exact figures, md is for a pull request (default: table)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD=NEW, two names of kernels")
    return old, new


def _percent(text: str) -> float:
    try:
        return percentage(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
