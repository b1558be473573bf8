"""What spans carry, as debug annotations of track events: the iteration, CTA and launch, and their payloads.

Fields of perfetto/protos/perfetto/trace/track_event/debug_annotation.proto; names and texts are interned.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import payload_names
from profscope.traces.payloads import payload_name
from profscope.traces.perfetto.protobuf import padded_varint, varint
from profscope.traces.perfetto.words import (
    SHORT_BITS,
    Words,
    constant,
    fixed64,
    long_varint,
    short_varint,
    word_table,
)

__all__ = ["Annotation", "Floats", "Integers", "Part", "Texts", "annotations"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ANNOTATION = 4 << 3 | 2
NAME_IID, INT_VALUE, DOUBLE_VALUE, STRING_IID = 1 << 3, 4 << 3, 5 << 3 | 1, 17 << 3
"""Tags: TrackEvent.debug_annotations, and fields of DebugAnnotation."""


@dataclass(frozen=True)
class Part:
    """A field that some events of a block have.

    has    which, shape (events,)
    width  32-bit words that it takes
    words  those words, one column after the other, for given events
    """

    has: Flags
    width: int
    words: Callable[[Ints], Iterator[Words | int]]


@dataclass(frozen=True)
class Integers:
    """Integers by row, where `has` says so; without it, those that are not negative."""

    iid: int
    name: str
    values: NDArray[np.integer[Any]]
    has: Flags | None = None
    roots_only: bool = False

    def part(self, rows: Ints, roots: Flags) -> Part:
        """The annotation of given rows; `roots` are those with nothing around them."""
        values = self.values[rows].astype(np.int64)
        has = values >= 0 if self.has is None else self.has[rows]
        if self.roots_only:
            has &= roots
        least, most = int(values.min(where=has, initial=0)), int(values.max(where=has, initial=0))
        if least >= 0 and most < 1 << SHORT_BITS:
            start = _start(self.iid, 4)
            return Part(
                has, len(start) // 4 + 1, lambda at: _then(start, short_varint(INT_VALUE, values[at]))
            )
        start = _start(self.iid, 12)
        return Part(has, len(start) // 4 + 3, lambda at: _then(start, *long_varint(INT_VALUE, values[at])))


@dataclass(frozen=True)
class Floats:
    """Doubles by row; NaN where there is none."""

    iid: int
    name: str
    values: NDArray[np.float64]

    def part(self, rows: Ints, roots: Flags) -> Part:
        """As `Integers.part`."""
        values = self.values[rows]
        start = _start(self.iid, 12) + padded_varint(DOUBLE_VALUE, 4)
        return Part(~np.isnan(values), len(start) // 4 + 2, lambda at: _then(start, *fixed64(values[at])))


@dataclass(frozen=True)
class Texts:
    """Texts by row, as numbers of `texts`; -1 where there is none.

    The texts are interned, the first as `first_iid`; `words` has each one's annotation, shape (texts, width).
    """

    iid: int
    name: str
    codes: NDArray[np.integer[Any]]
    texts: list[str]
    first_iid: int
    words: Words

    def part(self, rows: Ints, roots: Flags) -> Part:
        """As `Integers.part`."""
        codes = self.codes[rows]
        return Part(codes >= 0, self.words.shape[1], lambda at: iter(self.words.take(codes[at], axis=0).T))


Annotation = Integers | Floats | Texts


def annotations(df: pd.DataFrame) -> list[Annotation]:
    """What the spans of a table carry; the names have the numbers of their places, from 1."""
    carried: list[Annotation] = [
        # All within a root share these; what is in flight is its lane's root.
        Integers(1, "cta", df["cta"].to_numpy(), roots_only=True),
        Integers(2, "launch", df["launch"].to_numpy(), roots_only=True),
    ]
    first_text = 1
    for column in (df[name] for name in payload_names(df)):
        iid, name = len(carried) + 1, payload_name(column)
        if column.dtype == "category" and len(column.cat.categories):
            texts = [str(value) for value in column.cat.categories]
            words = _text_words(iid, first_text, len(texts))
            carried.append(Texts(iid, name, column.cat.codes.to_numpy(), texts, first_text, words))
            first_text += len(texts)
        elif column.dtype == "float64":
            carried.append(Floats(iid, name, column.to_numpy()))
        elif column.dtype == "Int32":
            values = column.to_numpy(np.int64, na_value=0)
            carried.append(Integers(iid, name, values, column.notna().to_numpy()))
    # Last, where the time follows: what changes from packet to packet stands together, which gzip likes.
    carried.append(Integers(len(carried) + 1, "iter", df["iteration"].to_numpy()))
    return carried


def _text_words(iid: int, first: int, count: int) -> Words:
    size = 2 if first + count <= 1 << 14 else 6
    start = _start(iid, 2 + size) + varint(STRING_IID)
    return word_table([start + padded_varint(number, size) for number in range(first, first + count)])


def _start(iid: int, value_bytes: int) -> bytes:
    """An annotation up to its value, whose tag and bytes are `value_bytes` long."""
    number = padded_varint(iid, 1 if iid < 1 << 7 else 5)
    return bytes([ANNOTATION, 1 + len(number) + value_bytes, NAME_IID]) + number


def _then(start: bytes, *columns: Words) -> Iterator[Words | int]:
    yield from constant(start)
    yield from columns
