"""Protobuf fields as columns of 32-bit words, for many events at once.

Every field is padded to whole words, as a number may be: a varint may have more bytes than it needs, and so
may a tag and a length. Words are little-endian; a column is an array of shape (events,), or one word for all.
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from profscope.traces.perfetto.protobuf import padded_varint

__all__ = ["SHORT_BITS", "Words", "constant", "fixed64", "long_varint", "short_varint", "word_table"]

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
    data = np.empty((len(values), 2 + LONG_BYTES), np.uint8)
    data[:, :2] = np.frombuffer(padded_varint(tag, 2), np.uint8)
    left = values.astype(np.uint64)
    for at in range(LONG_BYTES):
        data[:, 2 + at] = (left & np.uint64(0x7F)).astype(np.uint8) | (0x80 if at < LONG_BYTES - 1 else 0)
        left >>= np.uint64(7)
    yield from _columns(data)


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
