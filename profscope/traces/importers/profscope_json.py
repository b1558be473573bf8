"""profscope's own Chrome traces: only the "profscope" object holds data, the events are drawn from it."""

import json
from typing import Any

from profscope.schema import Tables
from profscope.traces.chrome.text import END, FIRST_LINE_END, FIRST_LINE_START
from profscope.traces.profscope_object import KEYS, object_tables
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]


def recognises(file: TraceFile) -> bool:
    """Also where one of the keys is damaged: such a file must not pass for another tool's."""
    return file.head.startswith(FIRST_LINE_START) or any(map(_is_ours, file.documents[:1]))


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file that is cut off or damaged, or of a newer schema."""
    document = _first_line_document(file)
    if document is not None:
        file.check_end(END)
    return object_tables(file, file.documents[0] if document is None else document)


def _is_ours(document: Any) -> bool:
    return isinstance(document, dict) and not KEYS.isdisjoint(document)


def _first_line_document(file: TraceFile) -> Any:
    """What stands before the events in a file that still has the form profscope gave it; else None."""
    if not file.head.startswith(FIRST_LINE_START):
        return None
    line = file.first_line()
    if not line.endswith(FIRST_LINE_END):
        return None
    try:
        return json.loads(line.removesuffix(FIRST_LINE_END) + b"}")
    except (ValueError, RecursionError):
        return None  # all of it says better what is wrong
