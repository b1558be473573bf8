"""Event lines as a matrix of bytes: JSON for a block of events at the speed of copying.

Every line of a block has the same layout, text looked up in a table and numbers of fixed width, so a block is
filled column by column. Spaces pad, where JSON allows them; no number ever goes through a float.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Column",
    "Constant",
    "Hex",
    "Microseconds",
    "Number",
    "Text",
    "Words",
    "join_lines",
    "line_words",
    "text_table",
]

Words = NDArray[np.uint32]
Ints = NDArray[np.int64]
GROUP = 10_000
"""Numbers are written four digits at a time, each four one word."""


def _group_words(form: str, zero: str) -> Words:
    texts = [zero, *(form % value for value in range(1, GROUP))]
    return np.frombuffer("".join(texts).encode("ascii"), np.uint32)


# First the words for four digits with no digit before them, then for four digits with some.
LAST_GROUP = np.concatenate([_group_words("%4d", "   0"), _group_words("%04d", "0000")])
HIGHER_GROUP = np.concatenate([_group_words("%4d", "    "), _group_words("%04d", "0000")])
FRACTION = np.frombuffer("".join(f".{value:03d}" for value in range(1000)).encode("ascii"), np.uint32)
HEX_GROUP = np.frombuffer("".join(f"{value:04x}" for value in range(1 << 16)).encode("ascii"), np.uint32)
BLANK = np.frombuffer(b"    ", np.uint32)[0]


def text_table(texts: Sequence[str]) -> Words:
    """Texts padded with spaces to the longest one's length in UTF-8: words of shape (texts, width)."""
    encoded = [text.encode() for text in texts]
    width = -(-max(map(len, encoded), default=0) // 4)
    data = b"".join(text.ljust(4 * width) for text in encoded)
    return np.frombuffer(data, np.uint32).reshape(len(encoded), width)


@dataclass(frozen=True)
class Text:
    """A column of texts: `table` looked up by `index`, shape (lines,)."""

    table: Words
    index: NDArray[np.integer]

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    def fill(self, block: Words) -> None:
        block[:] = self.table.take(self.index, axis=0)


@dataclass(frozen=True)
class Constant:
    """The same text on every line."""

    text: str

    @property
    def width(self) -> int:
        return -(-len(self.text) // 4)

    def fill(self, block: Words) -> None:
        block[:] = np.frombuffer(self.text.ljust(4 * self.width).encode("ascii"), np.uint32)


@dataclass(frozen=True)
class Number:
    """A column of integers, right-aligned, shape (lines,); where negative, four bytes of text instead."""

    values: NDArray[np.integer]
    negative: bytes = b"    "

    @property
    def width(self) -> int:
        return _groups(int(self.values.max(initial=0)))

    def fill(self, block: Words) -> None:
        _fill_groups(block, _narrow(np.maximum(self.values, 0)))
        negative = self.values < 0
        if negative.any():
            block[negative] = BLANK
            block[negative, -1] = np.frombuffer(self.negative, np.uint32)[0]


@dataclass(frozen=True)
class Microseconds:
    """A column of non-negative nanoseconds, shape (lines,), as microseconds with exactly three decimals."""

    nanoseconds: Ints

    @property
    def width(self) -> int:
        return _groups(int(self.nanoseconds.max(initial=0)) // 1000) + 1

    def fill(self, block: Words) -> None:
        whole = _narrow(self.nanoseconds)
        micros = whole // 1000
        block[:, -1] = FRACTION[whole - micros * 1000]
        _fill_groups(block[:, :-1], micros)


@dataclass(frozen=True)
class Hex:
    """A column of non-negative integers as hexadecimal digits, four bytes for each 16 bits of `top`."""

    values: Ints
    top: int

    @property
    def width(self) -> int:
        return max(1, -(-self.top.bit_length() // 16))

    def fill(self, block: Words) -> None:
        for column in range(self.width):
            shift = 16 * (self.width - 1 - column)
            block[:, column] = HEX_GROUP[(self.values >> shift) & 0xFFFF]


Column = Text | Constant | Number | Microseconds | Hex


def line_words(lines: int, columns: Sequence[Column]) -> Words:
    """Lay columns out side by side: words of shape (lines, width)."""
    block = np.empty((lines, sum(column.width for column in columns)), np.uint32)
    at = 0
    for column in columns:
        column.fill(block[:, at : at + column.width])
        at += column.width
    return block


def join_lines(pieces: Sequence[tuple[Ints, Words]], lines: int) -> bytes:
    """Bytes of all lines in order; each piece is (line numbers below `lines`, rising; those lines)."""
    if len(pieces) == 1:
        return pieces[0][1].tobytes()
    width = np.zeros(lines, np.int64)
    for numbers, words in pieces:
        width[numbers] = words.shape[1]
    begin = np.cumsum(width) - width
    joined = np.empty(int(width.sum()), np.uint32)
    for numbers, words in pieces:
        joined[begin[numbers, None] + np.arange(words.shape[1])] = words
    return joined.tobytes()


def _groups(top: int) -> int:
    groups = 1
    while top >= GROUP**groups:
        groups += 1
    return groups


def _narrow(values: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    # Dividing 32-bit integers is several times faster than 64-bit ones.
    return values.astype(np.uint32 if int(values.max(initial=0)) < 1 << 32 else np.uint64)


def _fill_groups(block: Words, values: NDArray[np.unsignedinteger]) -> None:
    left = values
    last = block.shape[1] - 1
    for column in range(last, -1, -1):
        table = LAST_GROUP if column == last else HIGHER_GROUP
        if column == 0:
            block[:, 0] = table[left]
            return
        higher = left // GROUP
        block[:, column] = table[left - higher * GROUP + (higher > 0) * left.dtype.type(GROUP)]
        left = higher
