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
    "Lines",
    "Microseconds",
    "Number",
    "Text",
    "TextTable",
    "join_lines",
    "make_lines",
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
BLANK = np.frombuffer(b"    ", np.uint32)[0]


@dataclass(frozen=True)
class TextTable:
    """Texts padded to one width: words of shape (texts, width in words), and their lengths in bytes."""

    words: Words
    lengths: Ints


def text_table(texts: Sequence[str]) -> TextTable:
    """Pad texts with spaces to the longest one's length in UTF-8, rounded up to whole words."""
    encoded = [text.encode() for text in texts]
    width = -(-max(map(len, encoded), default=0) // 4)
    data = b"".join(text.ljust(4 * width) for text in encoded)
    lengths = np.array([len(text) for text in encoded], np.int64)
    return TextTable(np.frombuffer(data, np.uint32).reshape(len(encoded), width), lengths)


@dataclass(frozen=True)
class Text:
    """A column of texts: `table` looked up by `index`, shape (lines,)."""

    table: TextTable
    index: Ints

    @property
    def width(self) -> int:
        return int(self.table.words.shape[1])

    def fill(self, block: Words) -> None:
        block[:] = self.table.words[self.index]


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
    """A column of integers, right-aligned, shape (lines,); blank where negative."""

    values: NDArray[np.integer]

    @property
    def width(self) -> int:
        return _groups(int(self.values.max(initial=0)))

    def fill(self, block: Words) -> None:
        _fill_groups(block, _narrow(np.maximum(self.values, 0)))
        block[self.values < 0] = BLANK


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


Column = Text | Constant | Number | Microseconds


@dataclass(frozen=True)
class Lines:
    """Lines of one layout: words of shape (lines, width). The first column's texts have `lengths` bytes; the
    rest of its `text_width` words is padding."""

    words: Words
    lengths: Ints
    text_width: int


def make_lines(first: Text, *rest: Column) -> Lines:
    """Lay columns out side by side; `first` is the one whose texts may differ much in length."""
    columns = (first, *rest)
    block = np.empty((len(first.index), sum(column.width for column in columns)), np.uint32)
    at = 0
    for column in columns:
        column.fill(block[:, at : at + column.width])
        at += column.width
    return Lines(block, first.table.lengths[first.index], first.width)


def join_lines(pieces: Sequence[tuple[Ints, Lines]]) -> bytes:
    """Bytes of all lines in order of their keys; each piece is (keys of shape (lines,), lines)."""
    if len(pieces) == 1 and not _wasteful(pieces[0][1]):
        return pieces[0][1].words.tobytes()
    keys = np.concatenate([keys for keys, _ in pieces])
    position = np.empty(len(keys), np.int64)
    position[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    width = 4 * max(lines.words.shape[1] for _, lines in pieces)
    text = np.empty((len(keys), width), np.uint8)
    used = np.zeros((len(keys), width), np.bool_)
    at = 0
    for keys, lines in pieces:
        rows = position[at : at + len(keys)]
        at += len(keys)
        size = 4 * lines.words.shape[1]
        kept = np.ones((len(keys), size), np.bool_)
        kept[:, : 4 * lines.text_width] = np.arange(4 * lines.text_width) < lines.lengths[:, None]
        text[rows, :size] = lines.words.view(np.uint8).reshape(len(keys), size)
        used[rows, :size] = kept
    return text[used].tobytes()


def _wasteful(lines: Lines) -> bool:
    # Dropping padding costs about as much as writing the line: worth it when it is a fifth of the text.
    return bool(5 * (4 * lines.text_width * len(lines.lengths) - lines.lengths.sum()) > lines.words.nbytes)


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
