"""`profscope diff`, of old profscope-view diff: what has changed from one trace to another.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
from collections.abc import Sequence

from viewer.option_types import count, pattern, width
from viewer.presence import check_apart, check_there

__all__ = ["NOT_JUDGED", "REGRESSED", "diff_main"]

REGRESSED = 3
"""The exit status where a kernel has become slower by more than --fail-above allows."""

NOT_JUDGED = 4
"""The exit status if --fail-above cannot judge more than 5 % of either side's time."""

EPILOG = """\
Launches are compared with launches of the same kernel, constexprs and grid, or
the nearest ones; the heading names what differs. Kernels stand in the order of
what their launches' time changed by, and each begins with its launches as a
whole. Then its rows, by the change of self time
per launch. A change is shown as noise unless it is more than what launches
vary by, and more than what two builds or two sessions of the same code differ
by; cycles of the emulator have no noise. docs/diff.md says how that is told.

examples:
  profscope diff before.json after.json
  profscope diff before.json after.json --fail-above 5%
  profscope diff before.json after.json --kernel matmul --json

exit status: 0 shown; 1 a trace cannot be read, nothing in them can be compared,
or --fail-above finds nothing to judge; 2 wrong usage; 3 the launches of a
kernel have become slower by more than --fail-above, and that is no noise; 4
--fail-above cannot judge more than 5 % of either side's time (stderr says what)
"""


def diff_main(arguments: Sequence[str], tool: str) -> int:
    """Run the command, called `tool`, with the arguments behind that; returns the exit code."""
    options = _parser(tool).parse_args(arguments)
    check_there(options.a, options.b)
    check_apart(options.html, options.a, options.b)
    from viewer.comparison import show  # behind the command line: pandas and rich take their time

    comparison = show(options)
    if comparison.has_regressed:
        return REGRESSED
    return NOT_JUDGED if comparison.leaves_open else 0


def _parser(tool: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=tool,
        description="Show what has changed from trace A to trace B, and which changes are noise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "a", metavar="A", help="first trace, any that `profscope view` reads; - reads standard input"
    )
    parser.add_argument("b", metavar="B", help="trace to compare with it")
    parser.add_argument(
        "--fail-above",
        type=_percent,
        metavar="N%",
        help="exit with status 3 if a kernel became slower by more than this and by more than noise",
    )
    parser.add_argument("--kernel", type=pattern, metavar="REGEX", help="kernels whose name matches")
    parser.add_argument(
        "--top", type=count, default=20, metavar="N", help="rows for each kernel (default: 20; 0 shows all)"
    )
    parser.add_argument(
        "--width",
        type=width,
        metavar="N",
        help="columns of text (default: as wide as the terminal, 80 in a pipe)",
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON with exact figures")
    forms.add_argument(
        "--html", metavar="FILE", help="also write a page for a browser, with both sources side by side"
    )
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="compare traces even if their checksums are wrong",
    )
    return parser


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"not a percentage, such as 5%: {text!r}")
    return value
