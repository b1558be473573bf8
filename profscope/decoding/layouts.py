"""Where clocks of spans are in a launch whose CTAs are of few kinds: rows are laid out once for each kind.

Two CTAs are of one kind if their warps took the same ways. Then they have the same rows, but for clocks and
ids, and the table is filled from words that the CTAs wrote, with nothing in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Layout", "Part"]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]

# Spans of a part: what is at hand of them should stay in a core's own cache.
_PART_SPANS: Final = 1 << 16


class Part(NamedTuple):
    """Spans that are worked on together, of CTAs of one kind that follow each other. ctas: which of them;
    rows: of their kind, among all laid out, `origin` being its first; spans: where they stand in the launch.
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
            together = max(1, _PART_SPANS // size)
            length = size if whole else min(size, _PART_SPANS)
            for cta in range(begin, end, together):
                ctas = slice(cta, min(cta + together, end))
                for row in range(of_kind.start, of_kind.stop, length):
                    rows = slice(row, min(row + length, of_kind.stop))
                    at = int(self.base[cta]) + row - of_kind.start
                    shape = (ctas.stop - ctas.start) * (rows.stop - rows.start)
                    yield Part(ctas, rows, of_kind.start, slice(at, at + shape))

    def words(self, part: Part) -> Words:
        """What the CTAs wrote, shape (CTAs, words); it may be a view."""
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
