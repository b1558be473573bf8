"""What a session with `spool=` wrote: its file, or its folder if there is one file in it."""

from profscope.decoding.assemble import assemble
from profscope.schema import Tables
from profscope.traces.spool import find
from profscope.traces.spool import read as read_spool
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]


def recognises(file: TraceFile) -> bool:
    """Raises TraceError for a folder with several."""
    return find(file.path) is not None


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file without even its first chunk."""
    path = find(file.path)
    assert path is not None
    metadata, launches, notes = read_spool(path)
    return assemble(launches, metadata, notes)
