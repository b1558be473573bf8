"""Clocks whose low half was exactly 0, told from words that were not written.

A record is the low half of a clock, and a word of zero says that its code did not run. One reading in 2^32 is
zero all the same: two in a hundred sessions of 10^8 records have one. The row's other words give it away: an
op that began has ended, one that ended had begun, and every row of a loop has the begin of its iteration.
Only CTAs whose clock passed a multiple of 2^32 are looked at, so nearly all launches pay nothing.

A mark has one word, so whether it was passed then cannot be told; warps that may have passed one are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Frame, Section, Span
from profscope.decoding.columns import Clocks, spread
from profscope.decoding.rows import Rows
from profscope.decoding.shapes import Wrote

__all__ = ["INSTEAD", "Zeros", "find_zeros"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

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
