"""`profscope diff`, of old profscope-view diff: what has changed from one trace to another.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
from collections.abc import Sequence

from profscope.analysis.texts import percentage
from profscope.errors import OptionError, exit_status
from profscope.version import __version__
from profscope.viewer.option_types import (
    KERNELS,
    TRACE,
    add_no_verify,
    add_width,
    check_apart,
    check_page,
    check_there,
    count,
    pattern,
)

__all__ = ["NOT_JUDGED", "REGRESSED", "diff_main", "make_parser"]

REGRESSED = 3
"""The exit status where a kernel has become slower by more than --fail-above allows."""

NOT_JUDGED = 4
"""The exit status if --fail-above cannot judge more than 5 % of either side's time."""

EPILOG = f"""\
examples:
  profscope diff before.json after.json
  profscope diff before.json after.json --kernels matmul --html changes.html
  profscope diff before.json after.json --fail-above 5%

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


def diff_main(arguments: Sequence[str], tool: str) -> int:
    """Run the command, called `tool`, with the arguments behind that; returns the exit code."""
    options = make_parser(tool).parse_args(arguments)
    check_there(options.a, options.b)
    check_apart(options.html, options.a, options.b)
    check_page(options.html)
    from profscope.viewer.comparison import show  # behind the command line: pandas and rich take their time

    comparison = show(options)
    if comparison.has_regressed:
        return REGRESSED
    return NOT_JUDGED if comparison.leaves_open else 0


def make_parser(tool: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=tool,
        usage=f"{tool} [options] A B",
        description="Show what has changed from trace A to trace B, and which changes are noise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("a", metavar="A", help=TRACE)
    parser.add_argument("b", metavar="B", help="the trace to compare with A")
    parser.add_argument(
        "--fail-above",
        type=_percent,
        metavar="N%",
        help=f"exit with {REGRESSED} if a kernel is slower by more than this and than noise",
    )
    parser.add_argument("--kernels", type=pattern, metavar="REGEX", help=KERNELS)
    parser.add_argument(
        "--top", type=count, default=20, metavar="N", help="rows for each kernel; 0: all (default: 20)"
    )
    add_width(parser)
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="json has exact figures (default: table)"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also write a page for a browser, with both sources side by side"
    )
    add_no_verify(parser)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _percent(text: str) -> float:
    try:
        return percentage(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
