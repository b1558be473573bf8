"""Whether a trace is there at all: said before pandas and rich are loaded, which takes their time."""

import os
from pathlib import Path

__all__ = ["check_there"]


def check_there(*arguments: str) -> None:
    """Raises TraceError for the first of these paths where nothing is; "-" is standard input."""
    for argument in arguments:
        if argument != "-" and not os.path.exists(argument):
            from profscope.traces.trace_file import TraceFile

            TraceFile(Path(argument))  # which says why
