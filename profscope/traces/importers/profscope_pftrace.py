"""profscope's own Perfetto traces: the packets at the start hold the "profscope" object."""

import json
from collections.abc import Iterator

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.perfetto.protobuf import DATA_FIELD, END, LENGTH_DELIMITED, read_varint, varint
from profscope.traces.profscope_object import object_tables
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

PACKET = varint(1 << 3 | LENGTH_DELIMITED)
DATA = varint(DATA_FIELD << 3 | LENGTH_DELIMITED)
HEAD_BYTES = 32
"""More than the tags and lengths before a packet's data take."""


def recognises(file: TraceFile) -> bool:
    begin, end = _data_place(file.head[:HEAD_BYTES])
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
        begin, end = _data_place(bytes(ahead[:HEAD_BYTES]))
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


def _data_place(head: bytes) -> tuple[int, int]:
    """Where in a packet that starts so its data begin and end; (0, 0) if it holds none."""
    if not head.startswith(PACKET):
        return 0, 0
    try:
        _, at = read_varint(head, len(PACKET))
        if not head.startswith(DATA, at):
            return 0, 0
        size, at = read_varint(head, at + len(DATA))
    except ValueError:
        return 0, 0
    return at, at + size
