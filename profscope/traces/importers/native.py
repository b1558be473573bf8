"""Read back what profscope wrote: only what comes first holds data, the events are drawn from it."""

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from profscope.errors import TraceError
from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame
from profscope.traces.chrome import writer as chrome
from profscope.traces.compact import decode
from profscope.traces.document import SCHEMA, worker_count
from profscope.traces.files import gzip_end
from profscope.traces.perfetto import writer as perfetto
from profscope.traces.perfetto.reader import data_text
from profscope.traces.source import GZIP_MAGIC, file_pieces
from profscope.version import __version__

__all__ = ["from_document", "from_first_line", "from_first_packets"]

LINE_START = b'{"profscope":'
LINE_END = b",\n"
GZIP_CHECKS_BYTES = 8


def from_first_line(path: Path, line: bytes) -> Tables | None:
    """The profile, when the file still has the form profscope gave it; None when it has not.

    Raises TraceError for a file that is cut off or damaged, or of a newer schema.
    """
    if not (line.startswith(LINE_START) and line.endswith(LINE_END)):
        return None
    try:
        document = json.loads(line[: -len(LINE_END)] + b"}")
    except ValueError:
        return None
    _check_end(path, chrome.END)
    return from_document(path, document)


def from_first_packets(path: Path) -> Tables | None:
    """The profile in a Perfetto trace of profscope's; None for any other file.

    Raises TraceError for a file that is cut off or damaged, or of a newer schema.
    """
    text = data_text(path)
    if not text:
        return None
    _check_end(path, perfetto.END)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise TraceError(f"{path} is damaged: its profscope object: {error}") from error
    return from_document(path, document)


def from_document(path: Path, document: dict[str, Any]) -> Tables:
    """The profile in a trace's "profscope" object. Raises TraceError for a damaged or newer one."""
    ours = document["profscope"]
    schema = ours.get("schema") if isinstance(ours, dict) else None
    if not isinstance(schema, int):
        raise TraceError(f"{path} is damaged: its profscope object has no schema number")
    if schema > SCHEMA:
        raise TraceError(
            f"{path} has trace schema {schema}, written by profscope {ours.get('version')}; "
            f"this is profscope {__version__}, which reads schemas up to {SCHEMA}: upgrade it"
        )
    try:
        found = ours["launches"]
        launches = {
            name: found[name] for name in LAUNCH_DTYPES if name in found or name not in LAUNCH_DEFAULTS
        }
        with ThreadPoolExecutor(worker_count()) as pool:
            return Tables(decode(ours["spans"], pool), launches_frame(launches), dict(ours["metadata"]))
    except KeyError as error:
        raise TraceError(f"{path} is damaged: its profscope object has no {error}") from error
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError, zlib.error) as error:
        raise TraceError(f"{path} is damaged: {error}") from error


def _check_end(path: Path, end: bytes) -> None:
    """Notice a file cut off after its data, without reading all of one that is as it was written."""
    with path.open("rb") as file:
        magic = file.read(2)
        file.seek(-min(64, path.stat().st_size), 2)
        tail = file.read()
    if magic == GZIP_MAGIC:
        if tail[:-GZIP_CHECKS_BYTES].endswith(gzip_end(end)):
            return
        for piece in file_pieces(path):
            tail = (tail + piece)[-64:]
    if not tail.rstrip().endswith(end.strip()):
        raise TraceError(f"{path} is cut off: its events end in the middle")
