"""`profscope convert` and `profscope merge`: traces from one format to another, and several into one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.commands.output import FORMATS
from profscope.errors import OptionError, exit_status, run_command
from profscope.progress import working
from profscope.traces.formats import own_suffix
from profscope.traces.own_files import check_replaceable
from profscope.version import __version__
from profscope.viewer.option_types import TRACE, check_apart

if TYPE_CHECKING:  # the commands' words are checked before pandas is loaded
    from profscope.schema import Tables

__all__ = ["CONVERT", "MERGE", "main", "make_parser"]

_OUT: Final = f"file to write: {FORMATS}; or .html and others, written only; replaced if profscope wrote it"
_EXIT: Final = exit_status("written", "a trace that cannot be read or written")
CONVERT: Final = f"""\
examples:
  profscope convert trace.pftrace.gz spans.parquet
  profscope convert trace.json.gz report.html

{_EXIT}
"""
MERGE: Final = f"""\
examples:
  profscope merge a.json.gz b.json.gz -o both.json.gz

Traces keep their ranks; if one has none, or two have the same, ranks follow the
order given. A folder with the parts of all ranks needs no merging.

{_EXIT}
"""


def main(arguments: Sequence[str]) -> int:
    """Run a command, whose name is the first word; returns the exit code."""
    name, rest = arguments[0], arguments[1:]
    body = {"convert": _convert, "merge": _merge}[name]
    return run_command(f"profscope {name}", lambda: body(rest))


def _convert(words: Sequence[str]) -> int:
    parser = make_parser("convert")
    given = parser.parse_args(words)
    _check(given, [given.trace])
    if given.open and not given.output.endswith(".html"):
        parser.error(f"--open shows .html, not {given.output!r}")
    from profscope.traces.saving import save
    from profscope.viewer.input import read

    save(read(given.trace).profile.tables, given.output)
    if given.open:
        from profscope.viewer.open_view import open_page

        open_page(Path(given.output))
    return 0


def _merge(words: Sequence[str]) -> int:
    given = make_parser("merge").parse_args(words)
    _check(given, given.traces)
    from profscope.traces.jobs.merging import merged
    from profscope.traces.jobs.stack import Part
    from profscope.traces.saving import save
    from profscope.viewer.input import read

    _check_apart(given.traces)
    loaded = [read(trace).profile.tables for trace in given.traces]
    stated = [(tables.metadata.get("job") or {}).get("rank") for tables in loaded]
    _check_different(given.traces, loaded)
    told = None not in stated and len(set(stated)) == len(stated)
    ranks = [int(rank if told and rank is not None else place) for place, rank in enumerate(stated)]
    parts = [Part(*each) for each in zip(loaded, given.traces, ranks, strict=True)]
    with working(f"merging {len(parts)} traces"):
        whole = merged(parts)
    save(whole, given.output)
    return 0


def _check_apart(traces: Sequence[str]) -> None:
    """Raises OptionError if two traces are one file."""
    seen: dict[Path, str] = {}
    for trace in traces:
        path = Path(trace).resolve()
        if path in seen:
            raise OptionError(f"{seen[path]!r} and {trace!r} are one trace: its launches would count twice")
        seen[path] = trace


def _check_different(traces: Sequence[str], loaded: Sequence[Tables]) -> None:
    """Raises OptionError if two traces are copies of one recording. Two sessions of the emulator may have
    launched the same at the same cycles: when they began tells them apart, of older ones only their job."""
    seen: dict[tuple[Any, ...], str] = {}
    for trace, tables in zip(traces, loaded, strict=True):
        job = tables.metadata.get("job") or {}
        launches = tables.launches[["kernel", "start_ns", "end_ns"]].to_numpy().tolist()
        began = tables.metadata.get("began_unix_ns", job.get("began_unix_ns"))
        key = (str(job.get("id")), job.get("rank"), began, str(launches))
        if not launches or (tables.emulated and began is None):
            continue
        if key in seen:
            raise OptionError(
                f"{seen[key]!r} and {trace!r} hold one recording: its launches would count twice"
            )
        seen[key] = trace


def make_parser(name: str) -> argparse.ArgumentParser:
    """That of "convert" or "merge"."""
    arguments, description, epilog = {
        "convert": ("IN OUT", "Write a trace in another format.", CONVERT),
        "merge": ("TRACE... -o OUT", "Merge the traces of several ranks into one.", MERGE),
    }[name]
    parser = argparse.ArgumentParser(
        prog=f"profscope {name}",
        usage=f"profscope {name} [options] {arguments}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name == "convert":
        parser.add_argument("trace", metavar="IN", help=TRACE)
        parser.add_argument("output", metavar="OUT", help=_OUT)
        parser.add_argument("--open", action="store_true", help="open OUT, an .html, in a browser")
    else:
        parser.add_argument("traces", nargs="+", metavar="TRACE", help=TRACE)
        parser.add_argument("-o", "--output", required=True, metavar="OUT", help=_OUT)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _check(given: argparse.Namespace, traces: Sequence[str]) -> None:
    """What is wrong with the output, before anything is read. Raises OptionError."""
    own_suffix(Path(given.output).name, given.output)
    check_replaceable(Path(given.output), f"cannot write {given.output!r}")
    check_apart(given.output, *traces)
