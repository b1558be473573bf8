"""Protocol Buffers' wire format, as far as a Perfetto trace needs it: fields written and read one at a time.

https://protobuf.dev/programming-guides/encoding: a message is its fields, each a tag and a value, in any
order; a reader passes over fields that it does not know.
"""

import struct
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DATA_FIELD",
    "END",
    "LENGTH_DELIMITED",
    "SHORT_BITS",
    "Words",
    "constant",
    "data_place",
    "field",
    "fixed64",
    "long_varint",
    "long_varints",
    "packet",
    "padded_varint",
    "read_varint",
    "short_varint",
    "varint",
    "word_table",
]

VARINT, FIXED64, LENGTH_DELIMITED = 0, 1, 2
"""Wire types."""

LARGEST_VARINT_BYTES = 10
_OF_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))


def varint(value: int) -> bytes:
    """An integer in the fewest bytes; a negative one as its 64 bits, as int32 and int64 fields have it."""
    if 0 <= value < 0x80:  # nearly all are lengths and tags
        return _OF_ONE_BYTE[value]
    left = value & 0xFFFF_FFFF_FFFF_FFFF
    data = bytearray()
    while left >= 0x80:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def padded_varint(value: int, width: int) -> bytes:
    """A non-negative integer in exactly `width` bytes, which any reader takes for the same number.

    Raises ValueError when they do not hold it.
    """
    if value >> (7 * width):
        raise ValueError(f"{value} does not fit into a varint of {width} bytes")
    return bytes(value >> (7 * at) & 0x7F | (0x80 if at < width - 1 else 0) for at in range(width))


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field: an int as a varint, a float as a double, text and bytes (or a message) with their length.

    Text that UTF-8 cannot hold, a lone surrogate, is written with a question mark in its place.
    """
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    data = value.encode(errors="replace") if isinstance(value, str) else value
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, and where it ends. Raises ValueError when the data end first or it is none."""
    value = 0
    for shift in range(LARGEST_VARINT_BYTES):
        if at + shift >= len(data):
            break
        byte = data[at + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    raise ValueError(f"no varint at byte {at}")


# How a Perfetto trace of profscope's begins and ends, by which a reader knows it and sees it is whole.

DATA_FIELD = (1 << 29) - 1
"""The field of a packet that holds a part of the "profscope" object: the last number there is."""


def packet(*fields: bytes) -> bytes:
    """One TracePacket, as a field of the trace."""
    return field(1, b"".join(fields))


END = packet(field(DATA_FIELD - 1, "profscope: end"))
"""How every trace ends; a reader that stops after the data checks for it."""


# Protobuf fields as columns of 32-bit words, for many events at once.
#
# Every field is padded to whole words, as a number may be: a varint may have more bytes than it needs, and so
# may a tag and a length. Words are little-endian; a column is an array of shape (events,), or one word for
# all.

Ints = NDArray[np.int64]
Words = NDArray[np.uint32]
SHORT_BITS = 21
"""What `short_varint` holds; three bytes."""

LONG_BYTES = 10
"""What a 64-bit number takes as a varint."""


def constant(data: bytes) -> Iterator[int]:
    """The words of bytes that all events have; their number must divide by four."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are no whole words")
    for at in range(0, len(data), 4):
        yield int.from_bytes(data[at : at + 4], "little")


def word_table(rows: Sequence[bytes]) -> Words:
    """Bytes to look up by number, all of one length: words of shape (rows, width)."""
    return np.frombuffer(b"".join(rows), "<u4").reshape(len(rows), -1).astype(np.uint32)


def short_varint(tag: int, values: Ints) -> Words:
    """One word: a tag's byte and a number from 0 to 2**21 - 1."""
    left = values.astype(np.uint32)
    word = (left & 0x7F) << 8
    word |= (left & 0x3F80) << 9
    word |= (left & 0x1FC000) << 10
    word |= np.uint32(tag | 0x808000)
    return word.astype(np.uint32, copy=False)


def long_varint(tag: int, values: Ints) -> Iterator[Words]:
    """Three words: a tag's byte, and any 64 bits."""
    yield from _columns(_tagged(padded_varint(tag, 2), values))


def long_varints(tag: int, values: Ints) -> list[bytes]:
    """Fields of any 64 bits each, of one length."""
    data = _tagged(varint(tag), values)
    width, together = data.shape[1], data.tobytes()
    return [together[at : at + width] for at in range(0, len(together), width)]


def _tagged(tag: bytes, values: Ints) -> NDArray[np.uint8]:
    """A tag and a number in LONG_BYTES, shape (values, bytes)."""
    data = np.empty((len(values), len(tag) + LONG_BYTES), np.uint8)
    data[:, : len(tag)] = np.frombuffer(tag, np.uint8)
    left = values.astype(np.uint64)
    for at in range(LONG_BYTES):
        more = np.uint8(0x80 if at < LONG_BYTES - 1 else 0)
        data[:, len(tag) + at] = (left & np.uint64(0x7F)).astype(np.uint8) | more
        left >>= np.uint64(7)
    return data


def fixed64(values: NDArray[np.generic]) -> Iterator[Words]:
    """Two words: eight bytes as they are."""
    little = np.ascontiguousarray(values)
    yield from _columns(
        (little.byteswap() if sys.byteorder == "big" else little).view(np.uint8).reshape(-1, 8)
    )


def _columns(data: NDArray[np.uint8]) -> Iterator[Words]:
    words = data.view("<u4").astype(np.uint32)
    for at in range(words.shape[1]):
        yield words[:, at]


_PACKET = varint(1 << 3 | LENGTH_DELIMITED)
_DATA = varint(DATA_FIELD << 3 | LENGTH_DELIMITED)


def data_place(head: bytes) -> tuple[int, int]:
    """Where in a packet that starts with `head` profscope's data begin and end; (0, 0) if it holds none."""
    if not head.startswith(_PACKET):
        return 0, 0
    try:
        _, at = read_varint(head, len(_PACKET))
        if not head.startswith(_DATA, at):
            return 0, 0
        size, at = read_varint(head, at + len(_DATA))
    except ValueError:
        return 0, 0
    return at, at + size
