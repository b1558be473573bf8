"""The profscope object of a Perfetto trace, from the packets at its start."""

from collections.abc import Iterator
from pathlib import Path

from profscope.errors import TraceError
from profscope.traces.perfetto.protobuf import LENGTH_DELIMITED, read_varint, varint
from profscope.traces.perfetto.writer import DATA_FIELD
from profscope.traces.source import file_pieces

__all__ = ["data_text"]

PACKET = varint(1 << 3 | LENGTH_DELIMITED)
DATA = varint(DATA_FIELD << 3 | LENGTH_DELIMITED)
HEAD_BYTES = 32
"""More than the tags and lengths before a packet's data take."""


def data_text(path: Path) -> bytes:
    """The JSON text of the object; empty for a file that does not start with it.

    Raises TraceError for a file that ends inside it.
    """
    text, ahead = bytearray(), bytearray()
    pieces = file_pieces(path)
    while True:
        _fill(ahead, pieces, HEAD_BYTES)
        begin, end = _data_place(bytes(ahead[:HEAD_BYTES]))
        if begin == end:
            return bytes(text)
        _fill(ahead, pieces, end)
        if len(ahead) < end:
            raise TraceError(f"{path} is cut off: its data end in the middle")
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
