"""Decoded launches: their spans in columns, or laid out once for each kind of CTA; and their order of time.

Two CTAs are of one kind if their warps took the same ways. Then they have the same rows, but for clocks and
ids, and the table is filled from words that the CTAs wrote, with nothing in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.columns import BLOCK_SPANS, Columns, Recorded
from profscope.instrument_passes.manifest import Span

__all__ = [
    "PART_SPANS",
    "Apart",
    "DecodedLaunch",
    "Layout",
    "Part",
    "Payload",
    "SeveralLaunches",
    "time_order",
]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]

# Spans of a part: what is at hand of them should stay in a core's own cache.
PART_SPANS: Final = 1 << 16


class Part(NamedTuple):
    """Spans that are processed together, of consecutive CTAs of one kind. ctas: their positions; rows: of
    their kind, among all laid out, `origin` being its first; spans: their positions in the launch.
    """

    ctas: slice
    rows: slice
    origin: int
    spans: slice

    @property
    def shape(self) -> tuple[int, int]:
        """CTAs, and rows of each."""
        return self.ctas.stop - self.ctas.start, self.rows.stop - self.rows.start


@dataclass(frozen=True)
class Layout:
    """The CTAs of a launch that have spans, in order of the table; one entry each of area (its place in
    `segments`), anchor (see `Clocks`), cta, sm and kind.

    segments: shape (CTAs, recorded warps, words). first: per kind its first row among those laid out, and one
    more; begin, end: per row, the places in a CTA's words of its clocks.
    """

    segments: Words
    area: Ints
    anchor: Ints
    cta: Small
    sm: Small
    kind: Ints
    first: Ints
    begin: Ints
    end: Ints

    def __len__(self) -> int:
        return int(self.base[-1])

    @cached_property
    def base(self) -> Ints:
        """Per CTA the position of its first span, and one more."""
        return np.concatenate([[0], np.cumsum(np.diff(self.first)[self.kind])])

    @cached_property
    def times(self) -> Ints:
        """Per row how many CTAs have it."""
        sizes = np.diff(self.first)
        return np.repeat(np.bincount(self.kind, minlength=len(sizes)), sizes)

    def parts(self, *, whole: bool = False) -> Iterator[Part]:
        """All spans, in order. whole: no CTA is cut in two."""
        changes = np.flatnonzero(self.kind[1:] != self.kind[:-1]) + 1
        for begin, end in itertools.pairwise([0, *changes.tolist(), len(self.kind)]):
            of_kind = slice(*self.first[self.kind[begin] :][:2].tolist())
            size = of_kind.stop - of_kind.start
            together = max(1, PART_SPANS // size)
            length = size if whole else min(size, PART_SPANS)
            for cta in range(begin, end, together):
                ctas = slice(cta, min(cta + together, end))
                for row in range(of_kind.start, of_kind.stop, length):
                    rows = slice(row, min(row + length, of_kind.stop))
                    at = int(self.base[cta]) + row - of_kind.start
                    shape = (ctas.stop - ctas.start) * (rows.stop - rows.start)
                    yield Part(ctas, rows, of_kind.start, slice(at, at + shape))

    def words(self, part: Part) -> Words:
        """The words of the CTAs, shape (CTAs, words); may be a view."""
        area = self.area[part.ctas]
        follow = bool((np.diff(area) == 1).all())
        segments = self.segments[int(area[0]) : int(area[-1]) + 1] if follow else self.segments[area]
        return segments.reshape(len(area), -1)

    def clocks(self, part: Part, words: Words) -> tuple[Words, Words]:
        """When spans begin and end, cycles since their CTA's anchor, shape (CTAs, rows). words: theirs."""
        low = self.anchor[part.ctas, None].astype(np.uint32)
        begin, end = (words.take(places[part.rows], axis=1) for places in (self.begin, self.end))
        for clocks in (begin, end):
            np.subtract(clocks, low, out=clocks)  # wraps as the clock does
        return begin, end


@dataclass(frozen=True)
class Payload:
    """The values of one name: column `name` of the spans at `rows` (positions), int32 or float32. places: of
    each its word's in the CTA's area, None if a number follows from the span."""

    name: str
    rows: Small
    values: npt.NDArray[Any]
    places: Ints | None = None


class Apart(NamedTuple):
    """How many launches are decoded as one, and how far the ids of their CTAs and SMs are from the next's."""

    launches: int
    ctas: int
    sms: int


class SeveralLaunches(NamedTuple):
    """Facts of each of L launches that are decoded as one: their CTAs follow each other like those of one
    launch.

    apart: the ids of launch n have n times as much added. header: per CTA header, its launch. records,
    dropped, unmatched: per launch, as of `DecodedLaunch`.
    """

    apart: Apart
    header: Ints
    records: Ints
    dropped: Ints
    unmatched: Ints


@dataclass(frozen=True)
class DecodedLaunch(Columns):
    """Spans of one launch, or of several; `Columns` has the fields of a span.

    `decode` orders them by CTA, warp and program order, the order of time unless clocks were read in another
    order.

    sites: what `span` counts. headers: the CTA headers (CTA dtype) of every CTA of the launch, unwritten ones
    included. grid_x, grid_y: CTAs of the grid, those of all clusters. records: clock words that were stored
    and not overwritten. dropped: clock columns of rows that a ring overwrote or that cannot be placed any
    more, each a record if its code ran; summed over warps. unmatched: spans that have one of their two
    clocks. anomalies: sentences on contradictions, empty for a good buffer. payloads: values that spans
    carry. unpaired: starts of asynchronous work that no wait ended, if waits are recorded. wait: for
    asynchronous intervals the position of the span whose return ended them, -1 for others; None if there are
    none. idle: positions of spans on ops of a pipelined loop for iterations that it did not have: those do
    nothing. recorded: the warps with these spans or equal ones; None if spans were added. several: facts of
    each launch, if there are several. layout: if not None, the spans, and all positions of spans, are of one
    CTA of each kind only, in order of the table.
    """

    sites: tuple[Span, ...]
    headers: npt.NDArray[np.void]
    records: int
    dropped: int
    unmatched: int
    anomalies: tuple[str, ...] = field(default=())
    payloads: tuple[Payload, ...] = field(default=())
    unpaired: int = 0
    wait: Small | None = None
    idle: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    recorded: Recorded | None = None
    grid_x: int = 1
    grid_y: int = 1
    several: SeveralLaunches | None = None
    layout: Layout | None = None

    @property
    def total(self) -> int:
        """How many spans there are in all."""
        return len(self.span) if self.layout is None else len(self.layout)

    @cached_property
    def counts(self) -> Ints:
        """How many spans each site has."""
        return self.counted(slice(None))

    def counted(self, spans: Ints | slice) -> Ints:
        """How many spans each site has among those at some positions."""
        times = None if self.layout is None else self.layout.times[spans]
        return np.bincount(self.span[spans], times, len(self.sites)).astype(np.int64)


def time_order(decoded: DecodedLaunch) -> Ints | slice:
    """The spans by launch, CTA, warp, start.

    A slice where they stand in that order already, as they do where clocks were read in program order. Spans
    that start together stay in the order in which they stand.
    """
    if _in_time_order(decoded):
        return slice(None)
    start = decoded.start_cycle - decoded.start_cycle.min()
    bits = [int(a.max()).bit_length() for a in (decoded.cta, decoded.warp, start)]
    if sum(bits) > 63:
        return np.lexsort((start, decoded.warp, decoded.cta))
    key = decoded.cta.astype(np.int64)
    for values, width in zip((decoded.warp, start), bits[1:], strict=True):
        key = (key << width) | values
    return np.argsort(key, kind="stable")


def _in_time_order(decoded: DecodedLaunch) -> bool:
    for begin in range(0, len(decoded.span) - 1, BLOCK_SPANS):
        here, there = slice(begin, begin + BLOCK_SPANS), slice(begin + 1, begin + BLOCK_SPANS + 1)
        size = min(BLOCK_SPANS, len(decoded.span) - 1 - begin)
        good = np.zeros(size, bool)
        equal = np.ones(size, bool)
        for column in (decoded.cta, decoded.warp, decoded.start_cycle):
            before, after = column[here][:size], column[there]
            good |= equal & (before < after)
            equal &= before == after
        if not (good | equal).all():
            return False
    return True
