"""profscope's own files, each with the "profscope" object in it: Chrome JSON in its first line, Perfetto
traces in the packets at their start, Parquet in its metadata. What is drawn is not read."""

import json
from typing import Any

from profscope.errors import TraceError
from profscope.installed import require
from profscope.schema import Tables
from profscope.traces.chrome.text import END as JSON_END
from profscope.traces.chrome.text import FIRST_LINE_END, FIRST_LINE_START
from profscope.traces.perfetto.protobuf import END as PACKETS_END
from profscope.traces.profscope_object import KEYS, object_tables
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

_PARQUET = b"PAR1"


def recognises(file: TraceFile) -> bool:
    """Also JSON where one of the keys is damaged: such a file must not pass for another tool's."""
    if file.head.startswith((FIRST_LINE_START, _PARQUET)) or file.has_packets:
        return True
    return file.chrome is not None and not KEYS.isdisjoint(file.chrome.fields)


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file that is cut off, damaged or of another schema; for Parquet of another
    tool, and without pyarrow."""
    if file.head.startswith(_PARQUET):
        require("parquet", f"{file} is Parquet: to read it", TraceError)
        from profscope.traces.parquet import tables_in_file

        return tables_in_file(file)
    if file.has_packets:
        text = file.packets()
        file.check_end(PACKETS_END)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise file.damaged(f"its profscope object: {error}") from error
        except RecursionError:
            raise file.damaged("its profscope object is nested too deeply") from None
        return object_tables(file, document)
    document = _first_line_document(file)
    if document is not None:
        file.check_end(JSON_END)
    return object_tables(file, file.document if document is None else document)


def _first_line_document(file: TraceFile) -> Any:
    """What stands before the events in a file that still has the form profscope gave it; else None."""
    line = file.first_line() if file.head.startswith(FIRST_LINE_START) else b""
    if not line.endswith(FIRST_LINE_END):
        return None
    try:
        return json.loads(line.removesuffix(FIRST_LINE_END) + b"}")
    except (ValueError, RecursionError):
        return None  # all of it says better what is wrong
