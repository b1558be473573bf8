"""Columns of spans: every warp's pattern, repeated with the warp's own clocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import CTA
from profscope.decoding.patterns import Patterns
from profscope.decoding.rows import Rows
from profscope.decoding.shapes import Wrote, words_of
from profscope.instrument_passes.manifest import Frame, Section, Span

__all__ = [
    "BLOCK_SPANS",
    "INSTEAD",
    "MIN_ALIKE_SPANS",
    "SHORT_PATTERN",
    "WRAP_NS",
    "Clocks",
    "Columns",
    "Recorded",
    "Zeros",
    "empty_columns",
    "fill",
    "find_zeros",
    "spread",
]

Flags = npt.NDArray[np.bool_]
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
        self.start, self.end = (ctas[name].astype(np.int64) for name in ("start_clock", "end_clock"))
        self.anchor = self.start - ANCHOR_MARGIN_CYCLES
        # By CTA, whether the low half may have been 0: its warps may leave after the header's clock is read.
        self.wraps = (self.end != 0) & (self.anchor >> 32 != self.end + ANCHOR_MARGIN_CYCLES >> 32)
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


# Clocks whose low half was exactly 0, told from words that were not written.
#
# A record is the low half of a clock, and a word of zero says that its code did not run. One reading in 2^32
# is zero all the same: two in a hundred sessions of 10^8 records have one. The row's other words give it
# away: an op that began has ended, one that ended had begun, and every row of a loop has the begin of its
# iteration. Only CTAs whose clock passed a multiple of 2^32 are looked at, so nearly all launches pay
# nothing.
#
# A mark has one word, so whether it was passed then cannot be told; warps that may have passed one are
# counted.


INSTEAD: Final = 1
"""What is read in place of a clock of 0: one cycle late."""

# Warps of a CTA begin and end so far from when its header says that it does, at most; or nearly always.
_BESIDE_CYCLES: Final = 1 << 12


class Zeros(NamedTuple):
    """Words that hold a clock of 0. area: position of the CTA; segment: which of its area; place: in that.
    doubtful: how many other warps may have read one."""

    area: Ints
    segment: Ints
    place: Ints
    doubtful: int


class _Candidates(NamedTuple):
    """Words of zero that may be clocks, in order of shape.

    place: in the segment; before, after: places of the clocks next to it in program order, -1 where there is
    none; sure: whether its code ran for certain.
    """

    shape: Ints
    place: Ints
    before: Ints
    after: Ints
    sure: Flags


def find_zeros(segments: Words, section: Section, wrote: Wrote, clocks: Clocks) -> Zeros:
    """The clocks of 0 of one section's warps. segments: shape (CTAs, recorded warps, words)."""
    candidates, shape = _candidates(section, wrote), wrote.shapes.of
    of_shape = np.searchsorted(candidates.shape, np.arange(len(wrote.shapes.warp) + 1))
    each = np.diff(of_shape)[shape]
    warp = np.flatnonzero(clocks.wraps[wrote.warps.area] & (each > 0))
    at = spread(of_shape, shape[warp])
    area, segment = (np.repeat(of_warp[warp], each[warp]) for of_warp in wrote.warps)
    low = clocks.anchor[area].astype(np.uint32)
    sure = candidates.sure[at]

    def since(place: Ints, otherwise: Ints) -> Ints:
        """Cycles from the anchor to a clock."""
        cycles: Ints = (segments[area, segment, place] - low).astype(np.int64)
        return np.where(place < 0, otherwise, cycles)

    zero = (np.uint32(0) - low).astype(np.int64)
    earliest = np.where(sure, 0, clocks.start[area] - clocks.anchor[area] - _BESIDE_CYCLES)
    latest = np.where(sure, 1 << 32, clocks.end[area] - clocks.anchor[area] + _BESIDE_CYCLES)
    fits = (since(candidates.before[at], earliest) <= zero) & (zero <= since(candidates.after[at], latest))
    certain = fits & sure
    # A warp reads no more than one, unless it runs for more than 2^32 cycles.
    warp = np.repeat(warp, each[warp])
    doubtful = np.setdiff1d(warp[fits], warp[certain])
    return Zeros(area[certain], segment[certain], candidates.place[at][certain], len(doubtful))


def _candidates(section: Section, wrote: Wrote) -> _Candidates:
    """Of one warp of each shape: in which of its words clocks stand is the same for all."""
    flat = wrote.words.reshape(-1)
    none = np.zeros(0, np.int64)
    parts = [_Candidates(none, none, none, none, np.zeros(0, bool))]
    for frame, of_frame in zip(section.frames, wrote.rows.frames, strict=True):
        columns = _in_program_order(section, frame)
        if columns and len(of_frame.at):
            parts.append(_of_frame(flat, section, frame, columns, of_frame))
    order = np.argsort(np.concatenate([part.shape for part in parts]), kind="stable")
    return _Candidates(*(np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True)))


def _of_frame(flat: Words, section: Section, frame: Frame, columns: Sequence[int], rows: Rows) -> _Candidates:
    written = flat[rows.at[:, None] + np.array(columns)] != 0
    ran, alone = _that_ran(section, frame, columns, written)
    at = np.flatnonzero(~written & (ran | alone))
    shape, place = np.repeat(rows.warp, len(columns)), (rows.place[:, None] + np.array(columns)).reshape(-1)
    index, is_clock = np.arange(written.size), written.reshape(-1)

    def neighbour(nearest: Ints) -> Ints:
        there = (nearest >= 0) & (nearest < len(index))
        there[there] = shape[nearest[there]] == shape[at[there]]
        return np.where(there, place[np.where(there, nearest, 0)], -1)

    before = np.maximum.accumulate(np.where(is_clock, index, -1))[at]
    after = np.minimum.accumulate(np.where(is_clock, index, len(index))[::-1])[::-1][at]
    return _Candidates(
        shape[at], place[at].astype(np.int64), neighbour(before), neighbour(after), ran.reshape(-1)[at]
    )


def _that_ran(section: Section, frame: Frame, columns: Sequence[int], written: Flags) -> tuple[Flags, Flags]:
    """Per row and column whether its clock was read for certain, and whether no other clock can tell.

    Begin and end of a span stand in one block, so one of them ran if the other did.
    """
    at = {column: index for index, column in enumerate(columns)}
    ran, told = np.zeros_like(written), np.zeros(len(columns), bool)
    for span in section.spans:
        if span.frame != frame.index or span.begin in span.ends:
            continue
        begin, ends = at[span.begin], [at[column] for column in span.ends]
        told[[begin, *ends]] = True
        if not ends:  # an iteration: a row has one
            ran[:, begin] = True
            continue
        ended = written[:, ends].any(axis=1)
        ran[:, begin] |= ended
        ran[:, ends[0]] |= written[:, begin] & ~ended
    return ran, np.broadcast_to(~told, written.shape)


def _in_program_order(section: Section, frame: Frame) -> list[int]:
    """The columns of a frame's clocks, in the order in which a warp reads them; returns come last."""
    mine = [span for span in section.spans if span.frame == frame.index]
    outermost: list[Span] = []
    inside: dict[int, list[Span]] = {span.id: [] for span in mine}
    for span in mine:
        inside.get(span.parent, outermost).append(span)

    def columns(spans: Sequence[Span]) -> Iterator[int]:
        for span in spans:
            yield span.begin
            yield from columns(inside[span.id])
            yield from span.ends

    return list(dict.fromkeys(columns(outermost)))
