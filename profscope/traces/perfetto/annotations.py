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
from profscope.traces.perfetto.protobuf import (
    SHORT_BITS,
    Words,
    constant,
    field,
    fixed64,
    long_varint,
    packet,
    padded_varint,
    short_varint,
    varint,
    word_table,
)
from profscope.traces.tracks import drawn_name, payload_name

__all__ = [
    "SEQUENCE",
    "Annotation",
    "Floats",
    "Integers",
    "Part",
    "Texts",
    "TrackNames",
    "annotations",
    "kinds_of",
]

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


# What a sequence of packets says when it starts on a track: clock, track, and the names events refer to.
#
# Fields of perfetto/protos/perfetto/trace: trace_packet.proto, clock_snapshot.proto and defaults in
# trace_packet_defaults.proto;
# what is interned is in interned_data/interned_data.proto and track_event/source_location.proto.

SEQUENCE = 1
"""The number of the sequence that all events belong to."""

CLOCK = 64
"""The first of the clocks that belong to one sequence (64 to 127)."""

BOOTTIME = 6
"""The clock that Perfetto shows; here that of `start_ns`."""

STARTS_AFRESH = 1
"""TracePacket.SEQ_INCREMENTAL_STATE_CLEARED: what the sequence said before no longer holds."""


def kinds_of(sites: pd.DataFrame) -> list[str]:
    """The kinds of sites; events have a kind's place, from 1, as their category."""
    return list(dict.fromkeys(sites["kind"]))


class TrackNames:
    """The names that events of a block refer to, each said on every track that needs it and once a block."""

    def __init__(self, sites: pd.DataFrame, annotations: list[Annotation], origin_ns: int) -> None:
        """A track's clock starts at `origin_ns`."""
        self._origin_ns = origin_ns
        self._common = b"".join(
            [
                *(_interned(1, iid, kind) for iid, kind in enumerate(kinds_of(sites), 1)),
                *(_interned(3, one.iid, one.name) for one in annotations),
            ]
        )
        columns = (sites[name].tolist() for name in ("file", "line", "kernel", "call_path"))
        shown = map(drawn_name, sites["scope"], sites["kind"])
        self._sites = [
            _interned(2, iid, scope) + _interned(4, iid, file, field(3, path or kernel) + field(4, line))
            for iid, (scope, file, line, kernel, path) in enumerate(zip(shown, *columns, strict=True), 1)
        ]
        self._texts = [one for one in annotations if isinstance(one, Texts)]
        self._values = [
            [_interned(29, iid, text) for iid, text in enumerate(one.texts, one.first_iid)]
            for one in self._texts
        ]

    def start(self, track: int) -> bytes:
        """The packet that starts a track: its clock at the origin, and itself what events are on."""
        there = field(1, BOOTTIME) + field(2, self._origin_ns)
        here = field(1, CLOCK) + field(2, 0) + field(3, 1) + field(4, 1)  # incremental, in ns
        clocks = field(1, there) + field(1, here) + field(2, BOOTTIME)
        defaults = field(58, CLOCK) + field(11, field(11, track))
        names = field(12, self._common)
        return packet(
            field(10, SEQUENCE), field(13, STARTS_AFRESH), field(6, clocks), field(59, defaults), names
        )

    def used(self, rows: Ints, site: Ints, first: Ints) -> list[bytes]:
        """For each stretch of a block's rows the packet that names what it uses.

        `site` is each row's; `first` is where in them each stretch begins.
        """
        stretch = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
        needed = [_by_stretch(stretch, site, self._sites, len(first))]
        for one, values in zip(self._texts, self._values, strict=True):
            codes = one.codes[rows].astype(np.int64)
            some = np.flatnonzero(codes >= 0)
            needed.append(_by_stretch(stretch[some], codes[some], values, len(first)))
        return [
            packet(field(10, SEQUENCE), field(12, b"".join(names))) for names in zip(*needed, strict=True)
        ]


def _by_stretch(stretch: Ints, number: Ints, names: list[bytes], stretches: int) -> list[bytes]:
    """For each stretch the names whose numbers occur in it."""
    pairs = stretch * len(names) + number
    # Few pairs are ticked off faster than sorted.
    seen = stretches * len(names)
    distinct = np.unique(pairs) if seen > 1 << 20 else np.flatnonzero(np.bincount(pairs, minlength=seen))
    occurring: list[list[bytes]] = [[] for _ in range(stretches)]
    for pair in distinct.tolist():
        occurring[pair // len(names)].append(names[pair % len(names)])
    return list(map(b"".join, occurring))


def _interned(kind: int, iid: int, name: str, more: bytes = b"") -> bytes:
    return field(kind, field(1, iid) + field(2, name) + more)
