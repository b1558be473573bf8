"""Columns of spans: every warp's pattern, repeated with the warp's own clocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import CTA
from profscope.decoding.patterns import Patterns
from profscope.decoding.shapes import words_of

__all__ = [
    "BLOCK_SPANS",
    "MIN_ALIKE_SPANS",
    "SHORT_PATTERN",
    "WRAP_NS",
    "Clocks",
    "Columns",
    "Recorded",
    "empty_columns",
    "fill",
    "spread",
]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Narrow = npt.NDArray[np.integer[Any]]
Words = npt.NDArray[np.uint32]

# A warp may enter the kernel a little before the header's clock is read; the anchor is set this much earlier.
ANCHOR_MARGIN_CYCLES = 1 << 24
# Low halves of clocks are unambiguous while the whole CTA lasts less than 2^32 cycles, and so it does if it
# lasts less than this: no GPU's SMs run at more than 3 GHz.
WRAP_NS = ((1 << 32) - 2 * ANCHOR_MARGIN_CYCLES) // 3
# Spans that are worked on together: few enough for a core's caches, and so many that threads do not wait for
# each other between short steps of numpy (on 32 cores 2^15 took 1.3 times as long as 2^17).
BLOCK_SPANS = 1 << 17
# Neighbours of one pattern are filled in together where that many spans come with each change of pattern.
MIN_ALIKE_SPANS = 8192
SHORT_PATTERN = 8  # spans


class Clocks:
    """Full clock64 values from 32-bit words, anchored per CTA.

    A word is the low half of the SM's clock64, and the header tells the CTA's start, so while a CTA lasts
    less than 2^32 cycles (2.2 s at 1.98 GHz) the full value is anchor + (word - anchor) mod 2^32. A CTA that
    lasted longer is decoded too, but its rows may be off by multiples of 2^32: `ambiguous` counts CTAs that
    may have, by the globaltimer, so that the caller can say so.
    """

    def __init__(self, ctas: npt.NDArray[np.void]) -> None:
        self.anchor = ctas["start_clock"].astype(np.int64) - ANCHOR_MARGIN_CYCLES
        took_ns = ctas["end_globaltimer"] - ctas["start_globaltimer"]
        self.ambiguous = int(np.count_nonzero(took_ns >= WRAP_NS))


@dataclass(frozen=True)
class Recorded:
    """The warps of a launch in the order of the table; one entry each.

    area: position of the CTA; segment: the warp's in its area; cta, sm, warp: ids; pattern: among those of
    the launch; first: position of its first span; spans: how many it has.
    """

    area: Ints
    segment: Ints
    cta: Small
    sm: Narrow
    warp: Narrow
    pattern: Ints
    first: Ints
    spans: Ints


@dataclass(frozen=True)
class Columns:
    """Arrays with one entry per span, of 16 or 32 bits, cycles of 64.

    span: index of its site; cta, warp, sm; start_cycle, end_cycle (SM clock64); iteration (-1 outside
    loops); parent: position in these arrays, -1 at a root; depth.
    """

    span: Narrow
    cta: Small
    warp: Narrow
    sm: Narrow
    start_cycle: Ints
    end_cycle: Ints
    iteration: Small
    parent: Small
    depth: Narrow


def fill(segments: Words, anchor: Ints, recorded: Recorded, patterns: Patterns) -> tuple[Columns, int]:
    """The spans of all warps, in order of warps and patterns, and how many of them end before they start.

    segments: shape (CTAs, recorded warps, words); anchor: per CTA, see `Clocks`.
    """
    columns, backwards = empty_columns(int(recorded.spans.sum()), len(patterns.sites)), 0
    for begin, end in _blocks(recorded, segments.shape[1]):
        warps = Recorded(*(getattr(recorded, name)[begin:end] for name in Recorded.__dataclass_fields__))
        spans = slice(int(warps.first[0]), int(warps.first[-1] + warps.spans[-1]))
        mine = Columns(*(getattr(columns, name)[spans] for name in Columns.__dataclass_fields__))
        words = words_of(segments, warps.area, warps.segment)
        if (warps.pattern == warps.pattern[0]).all():
            _fill_alike(mine, words, anchor[warps.area], warps, patterns)
        else:
            _fill(mine, words, anchor[warps.area], warps, patterns)
        backwards += int(np.count_nonzero(mine.end_cycle < mine.start_cycle))
    return columns, backwards


def empty_columns(spans: int, sites: int) -> Columns:
    """Columns to be filled, for spans of so many sites; narrow, since what costs most here is new memory."""
    of_site = np.int16 if sites <= np.iinfo(np.int16).max else np.int32
    return Columns(
        span=np.empty(spans, of_site),
        cta=np.empty(spans, np.int32),
        warp=np.empty(spans, np.int16),
        sm=np.empty(spans, CTA["sm"]),
        start_cycle=np.empty(spans, np.int64),
        end_cycle=np.empty(spans, np.int64),
        iteration=np.empty(spans, np.int32),
        parent=np.empty(spans, np.int32),
        depth=np.empty(spans, np.int16),
    )


def _blocks(recorded: Recorded, of_cta: int) -> Iterator[tuple[int, int]]:
    """Ranges of warps that are filled in together. of_cta: warps of a CTA; whole CTAs are faster to read."""
    warps, total = len(recorded.spans), int(recorded.spans.sum())
    changes = np.flatnonzero(recorded.pattern[1:] != recorded.pattern[:-1]) + 1
    cuts = np.searchsorted(recorded.first, np.arange(0, total, BLOCK_SPANS))
    cuts -= cuts % of_cta
    if total > len(changes) * MIN_ALIKE_SPANS:
        cuts = np.concatenate([cuts, changes])
    cuts = np.unique(np.concatenate([[0], cuts, [warps]]))
    yield from itertools.pairwise(cuts.tolist())


def _fill_alike(mine: Columns, words: Words, anchor: Ints, warps: Recorded, patterns: Patterns) -> None:
    """Warps of one pattern: it is laid out as many times as there are warps."""
    which = int(warps.pattern[0])
    first, size = int(patterns.first[which]), int(warps.spans[0])
    tables = {name: column.reshape(len(words), size) for name, column in vars(mine).items()}
    low = anchor.astype(np.uint32)[:, None]
    # Of a short pattern one span at a time, of all warps: numpy's inner loop runs along the longer side.
    for some in [slice(0, size)] if size > SHORT_PATTERN else [slice(at, at + 1) for at in range(size)]:
        table = {name: whole[:, some] for name, whole in tables.items()}
        spans = slice(first + some.start, first + some.stop)
        for name in ("cta", "warp", "sm"):
            table[name][:] = getattr(warps, name)[:, None]
        table["span"][:] = patterns.site[spans]
        table["iteration"][:] = patterns.iteration[spans]
        table["depth"][:] = patterns.depth[spans]
        above = patterns.parent[spans]
        np.add(above, warps.first.astype(np.int32)[:, None], out=table["parent"])
        table["parent"][:, above < 0] = -1
        clocks = np.empty(table["span"].shape, np.uint32)
        for name, places in (("start_cycle", patterns.begin), ("end_cycle", patterns.end)):
            np.take(words, places[spans], axis=1, out=clocks, mode="clip")  # other modes copy `clocks`
            np.subtract(clocks, low, out=clocks)  # wraps as the clock does
            np.add(clocks, anchor[:, None], out=table[name])


def _fill(mine: Columns, words: Words, anchor: Ints, warps: Recorded, patterns: Patterns) -> None:
    """Warps of any patterns."""
    at: Ints | slice = spread(patterns.first, warps.pattern)
    if (np.diff(warps.pattern) == 1).all():  # every warp has a pattern of its own
        at = slice(int(patterns.first[warps.pattern[0]]), int(patterns.first[warps.pattern[-1] + 1]))
    sizes = warps.spans
    for name in ("cta", "warp", "sm"):
        getattr(mine, name)[:] = np.repeat(getattr(warps, name), sizes)
    mine.span[:] = patterns.site[at]
    mine.iteration[:] = patterns.iteration[at]
    mine.depth[:] = patterns.depth[at]
    above = patterns.parent[at]
    mine.parent[:] = np.where(above < 0, above, above + np.repeat(warps.first.astype(np.int32), sizes))
    anchor = np.repeat(anchor, sizes)
    low, segment = anchor.astype(np.uint32), np.repeat(np.arange(len(words)) * words.shape[1], sizes)
    for cycles, places in ((mine.start_cycle, patterns.begin), (mine.end_cycle, patterns.end)):
        np.add(words.reshape(-1)[segment + places[at]] - low, anchor, out=cycles)


def spread(first: Ints, which: Ints) -> Ints:
    """All i from first[w] to first[w + 1], for each w of `which` in turn."""
    sizes = np.diff(first)[which]
    ends = np.cumsum(sizes)
    positions: Ints = np.repeat(first[:-1][which] - ends + sizes, sizes)
    positions += np.arange(len(positions))
    return positions
