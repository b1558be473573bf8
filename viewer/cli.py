"""profscope-view: look at a trace in the terminal.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from instrument_passes.command import run
from profscope.version import __version__
from viewer.units import UNITS

__all__ = ["main"]

EPILOG = """\
Durations have three significant digits; --json has them exact. Self time is
what a span's synchronous children leave of it; share is self time over the
kernel's warp time, which is the sum of all its warps' run times.

exit status: 0 shown; 1 the trace cannot be read or has nothing of what was
asked for; 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run("profscope-view", lambda: _main(_parser().parse_args(arguments)))


def _main(options: argparse.Namespace) -> int:
    from viewer.view import show  # behind the command line: pandas and rich take their time

    show(options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope-view",
        description="Show a trace: kernels, scopes by time, scope tree, timeline of one CTA's warps.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trace",
        type=Path,
        help="a trace of profscope (.pftrace or .json, or either .gz), torch.profiler or Proton",
    )
    parser.add_argument("--kernel", type=_pattern, metavar="REGEX", help="only kernels whose name matches")
    chosen = parser.add_argument_group(
        "timeline", "by default the kernel with most warp time, its median CTA"
    )
    chosen.add_argument("--launch", type=int, metavar="N", help="draw a CTA of this launch")
    chosen.add_argument("--cta", type=int, metavar="N", help="draw this CTA (linear id)")
    chosen.add_argument("--sm", type=int, metavar="N", help="draw a CTA that ran on this SM")
    chosen.add_argument("--warp", type=int, metavar="N", help="draw this warp alone")
    chosen.add_argument(
        "--zoom", metavar="A:B", help="draw only this part of the CTA's time, e.g. 1.5us:3us or 900:2k"
    )
    form = parser.add_argument_group("form")
    form.add_argument("--unit", choices=UNITS, help="default: ns; cycles for an emulated trace")
    form.add_argument(
        "--top", type=_count, default=20, metavar="N", help="scopes per kernel (default 20; 0: all)"
    )
    form.add_argument(
        "--width", type=_width, metavar="N", help="columns (default: the terminal's, 80 in a pipe)"
    )
    form.add_argument("--json", action="store_true", help="print the same as JSON, durations exact")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _pattern(text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a count: {text!r}")
    return int(text)


def _width(text: str) -> int:
    if not text.isdecimal() or int(text) < 40:
        raise argparse.ArgumentTypeError(f"must be 40 or more: {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
