"""Whether a trace is there at all, and no output goes in its place: said before pandas and rich are loaded,
which takes their time."""

import os
from pathlib import Path

__all__ = ["check_apart", "check_there"]


def check_there(*arguments: str) -> None:
    """Raises TraceError for the first of these paths where nothing is; "-" is standard input."""
    for argument in arguments:
        if argument != "-" and not os.path.exists(argument):
            from profscope.traces.trace_file import TraceFile

            TraceFile(Path(argument))  # which says why


def check_apart(output: str | None, *traces: str) -> None:
    """Raises OptionError where a file would take the place of one of the traces that it is made of; None
    where none is written."""
    for trace in traces:
        if output is not None and os.path.realpath(output) == os.path.realpath(trace):
            from profscope.errors import OptionError

            raise OptionError(f"{output!r} is a trace that is read: name another file to write")
