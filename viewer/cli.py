"""profscope-view: look at a trace in the terminal.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
import sys
from collections.abc import Sequence

from instrument_passes.command import run
from profscope.errors import OptionError
from profscope.version import __version__
from viewer.option_types import count, pattern, width
from viewer.units import UNITS
from viewer.zoom import Zoom, parse_zoom

__all__ = ["main"]

EPILOG = """\
Kernels stand in the order of the time that their launches took, scopes in that
of their self time, the tree in program order. Self time is what a span's
synchronous children leave of it; share is self time over the kernel's warp
time, which is the sum of all its warps' run times. Durations have three
significant digits; --json has them exact. Short lines leave columns out;
--width 120 has all.

examples:
  profscope-view trace.json --kernel matmul --launch 3
  profscope-view trace.json --zoom 1us:2us --warp 0
  zcat trace.json.gz | profscope-view - --json

`profscope-view diff A B` shows what has changed from one trace to another;
profscope-view diff --help has more. (A trace called diff is ./diff.)

exit status: 0 shown; 1 the trace cannot be read or has nothing of what was
asked for; 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    return run("profscope-view", lambda: _main(given))


def _main(given: Sequence[str]) -> int:
    if given[:1] == ["diff"]:
        from viewer.diff_command import diff_main

        return diff_main(given[1:])
    options = _parser().parse_args(given)
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
        help="a trace of profscope (.pftrace or .json, or either .gz), torch.profiler or Proton; "
        "- is standard input",
    )
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="show a trace of profscope's even where its data are no longer those that were saved",
    )
    chosen = parser.add_argument_group("selection", "restricts all that is shown")
    chosen.add_argument("--kernel", type=pattern, metavar="REGEX", help="kernels whose name matches")
    chosen.add_argument("--variant", type=count, metavar="N", help="launches of this configuration")
    chosen.add_argument("--rank", type=count, metavar="N", help="launches of this process of a job")
    chosen.add_argument("--launch", type=count, metavar="N", help="this launch")
    chosen.add_argument("--cta", type=count, metavar="N", help="this CTA (linear id) of each launch")
    chosen.add_argument("--sm", type=count, metavar="N", help="what ran on this SM")
    chosen.add_argument("--warp", type=count, metavar="N", help="this warp of each CTA")
    drawn = parser.add_argument_group(
        "timeline", "of the median CTA of the first kernel in the list; --launch and --cta choose another"
    )
    drawn.add_argument(
        "--zoom",
        type=_zoom,
        metavar="A:B",
        help="draw only this part of the CTA's time: 1us:2us, in cycles 900:2k, and 900: to its end",
    )
    form = parser.add_argument_group("form")
    form.add_argument("--unit", choices=UNITS, help="default: ns; cycles for an emulated trace")
    form.add_argument(
        "--top", type=count, default=20, metavar="N", help="scopes per kernel (default 20; 0: all)"
    )
    form.add_argument(
        "--width", type=width, metavar="N", help="columns (default: the terminal's, 80 in a pipe)"
    )
    form.add_argument(
        "--lines", action="store_true", help="also each source line's share, and what it waits for"
    )
    forms = form.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print the same as JSON, durations exact")
    forms.add_argument(
        "--report",
        action="store_true",
        help="print what prof.report() returns instead, as JSON of at most 20,000 characters: for programs",
    )
    forms.add_argument(
        "--html", metavar="FILE", help="write a report for a browser into one file, which needs no network"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _zoom(text: str) -> Zoom:
    try:
        return parse_zoom(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
