"""profscope's own Perfetto traces: the packets at the start hold the "profscope" object."""

import json
from collections.abc import Iterator

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.perfetto.protobuf import END, data_place
from profscope.traces.profscope_object import object_tables
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

HEAD_BYTES = 32
"""More than the tags and lengths before a packet's data take."""


def recognises(file: TraceFile) -> bool:
    begin, end = data_place(file.head[:HEAD_BYTES])
    return begin < end


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file that is cut off or damaged, or of a newer schema."""
    text = _data_text(file)
    file.check_end(END)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise file.damaged(f"its profscope object: {error}") from error
    except RecursionError as error:
        raise file.damaged("its profscope object is nested too deeply") from error
    return object_tables(file, document)


def _data_text(file: TraceFile) -> bytes:
    """The JSON text of the object. Raises TraceError for a file that ends inside it."""
    text, ahead = bytearray(), bytearray()
    pieces = file.pieces()
    while True:
        _fill(ahead, pieces, HEAD_BYTES)
        begin, end = data_place(bytes(ahead[:HEAD_BYTES]))
        if begin == end:
            return bytes(text)
        _fill(ahead, pieces, end)
        if len(ahead) < end:
            raise TraceError(f"{file} is cut off: its data end in the middle")
        text += ahead[begin:end]
        del ahead[:end]


def _fill(ahead: bytearray, pieces: Iterator[bytes], size: int) -> None:
    """Read on until that many bytes are there, or all there are."""
    while len(ahead) < size and (piece := next(pieces, None)) is not None:
        ahead += piece
