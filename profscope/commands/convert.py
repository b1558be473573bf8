"""`profscope convert`: traces from one format to another."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profscope.commands.output import FORMATS
from profscope.errors import OptionError, exit_status, run_command
from profscope.traces.formats import own_suffix
from profscope.traces.own_files import check_replaceable
from profscope.version import __version__
from profscope.viewer.option_types import TRACE

__all__ = ["main", "make_parser"]

_OUT: Final = f"file to write: {FORMATS}; or .html and others, written only; replaced if profscope wrote it"
_EPILOG: Final = f"""\
examples:
  profscope convert trace.pftrace.gz spans.parquet
  profscope convert trace.json.gz report.html
  profscope convert folder-of-ranks both.pftrace.gz

{exit_status("written", "a trace that cannot be read or written")}
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    return run_command("profscope convert", lambda: _convert(arguments))


def _convert(words: Sequence[str]) -> int:
    parser = make_parser()
    given = parser.parse_args(words)
    # What is wrong with the output, before anything is read.
    own_suffix(Path(given.output).name, given.output)
    check_replaceable(Path(given.output), f"cannot write {given.output!r}")
    if os.path.realpath(given.output) == os.path.realpath(given.trace):
        raise OptionError(f"{given.output!r} is a trace that is read: name another file to write")
    if given.open and not given.output.endswith(".html"):
        parser.error(f"--open shows .html, not {given.output!r}")
    from profscope.traces.saving import save  # behind the command line: pandas takes its time
    from profscope.viewer.input import read

    save(read(given.trace).profile.tables, given.output)
    if given.open:
        from profscope.viewer.open_view import open_page

        open_page(Path(given.output))
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope convert",
        usage="profscope convert [options] IN OUT",
        description="Write a trace in another format.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", metavar="IN", help=TRACE)
    parser.add_argument("output", metavar="OUT", help=_OUT)
    parser.add_argument("--open", action="store_true", help="open OUT, an .html, in a browser")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser
