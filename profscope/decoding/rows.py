"""The rows that warps wrote into a section's frames: the surviving ones, in order, with their parent rows.

Rows are told by the place of their first word, so that nothing of them is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Frame, Manifest, Section
from profscope.instrument_passes.records import WORD

__all__ = ["Rows", "SectionRows", "count_column", "find_rows"]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Rows:
    """The rows of one frame that survived, in order of warp and row.

    at: place of the row's first word among all words; place: the same in its segment; warp: whose it is;
    number: row number since the warp started; instance: which parent row (position in the parent's Rows) it
    belongs to; iteration: row number within that instance. newest: per warp, where among all words its last
    row is, survived or not, -1 if there is none. lost: positions of the parent rows that have lost rows of
    this frame, or may have; of each the first ones, or all.
    """

    at: Ints
    place: Small
    warp: Ints
    number: Ints
    instance: Ints
    iteration: Ints
    newest: Ints
    lost: Ints


@dataclass(frozen=True)
class SectionRows:
    """frames: by index. records: per warp, clock words that were written; dropped: per warp, clock columns of
    the rows that rings overwrote or that cannot be placed. most: the most rows a warp appended to a ring."""

    frames: list[Rows]
    records: Ints
    dropped: Ints
    most: int


def find_rows(words: Words, manifest: Manifest, section: Section, ring_log2: int) -> SectionRows:
    """The rows of every frame. words: segments, shape (warps, words), contiguous."""
    flat = words.reshape(-1)
    origin = np.arange(len(words), dtype=np.int64) * words.shape[1]  # of the segments
    frames: list[Rows] = []
    records, dropped = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
    most = 0
    for frame in section.frames:
        start = manifest.start(frame, ring_log2) // WORD.itemsize
        clocks = np.array([c for c, column in enumerate(frame.columns) if column.kind == "clock"], np.int64)
        if frame.parent < 0:
            rows = _root(origin, start)
        else:
            total = _total(flat, section, frame, frames[frame.parent])
            capacity = frame.rows(ring_log2)
            rows = _child(flat, section, frame, frames[frame.parent], total, origin, start, capacity)
            dropped += (total - np.bincount(rows.warp, minlength=len(words))) * len(clocks)
            most = max(most, int(total.max(initial=0))) if frame.is_ring else most
        written = np.count_nonzero(flat[rows.at[:, None] + clocks], axis=1)
        records += np.bincount(rows.warp, written, len(words)).astype(np.int64)
        frames.append(rows)
    return SectionRows(frames, records, dropped, most)


def _root(origin: Ints, start: int) -> Rows:
    none, at = np.full(len(origin), -1, np.int64), origin + start
    place = np.full(len(origin), start, np.int32)
    return Rows(at, place, np.arange(len(origin)), np.zeros_like(origin), none, none, at, none[:0])


def count_column(section: Section, frame: Frame) -> int:
    """The column of the parent's rows that counts this frame's."""
    columns = enumerate(section.frames[frame.parent].columns)
    return next(c for c, column in columns if (column.kind, column.frame) == ("count", frame.index))


def _total(flat: Words, section: Section, frame: Frame, parent: Rows) -> Ints:
    """How many rows each warp appended, overwritten ones included."""
    counted = flat[parent.newest + count_column(section, frame)].astype(np.int64)
    return np.where(parent.newest >= 0, counted, 0)


def _child(
    flat: Words,
    section: Section,
    frame: Frame,
    parent: Rows,
    total: Ints,
    origin: Ints,
    start: int,
    capacity: int,
) -> Rows:
    """Rows of a loop's frame: row n is in slot n modulo the capacity, which keeps the newest."""
    kept = np.minimum(total, capacity)
    warp = np.repeat(np.arange(len(total)), kept)
    number = np.arange(len(warp)) + np.repeat(total - np.cumsum(kept), kept)
    # The parent row of row n is the first whose count exceeds n; parents are sorted by (warp, number).
    after = flat[parent.at + count_column(section, frame)].astype(np.int64)
    before = np.zeros_like(after)
    same = parent.warp[1:] == parent.warp[:-1]
    before[1:][same] = after[:-1][same]
    rows_of = np.maximum(after - before, 0)
    if int(rows_of.sum()) == len(number) == int(total.sum()) and bool((before <= after).all()):
        instance = np.repeat(np.arange(len(after)), rows_of)  # every row is there, in order
        keep = np.ones(len(number), bool)
    else:
        key = parent.warp * (1 << 33) + after
        instance = np.searchsorted(key, warp * (1 << 33) + number, side="right").astype(np.int64)
        keep = instance == np.maximum.accumulate(instance)  # but where counts fall, which is damage
    # The oldest parent row that a ring kept has lost its predecessor's count, so nobody can tell which
    # rows were its own: they count as dropped, with the rows of the parents that were overwritten.
    oldest_lost = np.ones(len(after), bool)
    oldest_lost[1:] = ~same
    oldest_lost &= parent.number > 0
    # Behind the last entry: rows of a warp none of whose parent rows could be placed.
    keep &= ~np.append(oldest_lost, True)[instance] & (np.append(parent.warp, -1)[instance] == warp)
    if not keep.all():
        warp, number, instance = warp[keep], number[keep], instance[keep]
    row_words = len(frame.columns)
    place = (start + number % capacity * row_words).astype(np.int32)
    newest = np.where(total > 0, origin + start + (total - 1) % capacity * row_words, -1)
    lost = np.zeros(0, np.int64)
    if len(number) < int(total.sum()):
        lost = np.flatnonzero(np.bincount(instance, minlength=len(after)) < rows_of)
    iteration = number - before[instance]
    return Rows(origin[warp] + place, place, warp, number, instance, iteration, newest, lost)
