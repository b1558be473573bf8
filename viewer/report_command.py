"""`profscope report`: what a trace shows, as JSON for programs.

Only the command line is here, and it imports little: `--help` answers at once.
"""

import argparse
from collections.abc import Sequence

from instrument_passes.command import run
from profscope.version import __version__
from viewer.arguments import add_parts
from viewer.presence import check_there

__all__ = ["main"]

EPILOG = """\
The report is what prof.report() returns: at most 20,000 characters of JSON, of
the kernels whose launches took longest. It has the verdict, findings, launch
times, occupancy, scopes and lines of each, and says what was not measured.
docs/views.md describes each field.

examples:
  profscope report trace.json > report.json
  profscope report trace.json --kernel matmul
  profscope report trace.json | jq '.kernels[0].findings'

exit status: 0 printed; 1 the trace cannot be read or has nothing of what was
asked for; 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run("profscope report", lambda: _main(_parser().parse_args(arguments)))


def _main(options: argparse.Namespace) -> int:
    check_there(options.trace)
    from viewer.own_process import imports_that_stay

    with imports_that_stay():
        from viewer.view import show  # behind the command line: pandas and rich take their time

    show(options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope report",
        usage="%(prog)s [options] TRACE",
        description="Print a report on a trace, as JSON for programs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", help="any trace that `profscope view` reads; - reads standard input")
    add_parts(parser.add_argument_group("selection", "report only this part of the trace"))
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="read a trace even if its checksum is wrong",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(view="report", format="table", unit=None)
    return parser
