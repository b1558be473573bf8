"""Warps that took the same way through their program: one of them is decoded for all.

A warp's counts and zero words are its shape. They determine its number of rows, the words with clocks, and so
its spans and the places of their begins and ends. Most kernels have few shapes, and neighbours mostly share
theirs.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.rows import SectionRows, count_column
from profscope.instrument_passes.manifest import Manifest, Section
from profscope.instrument_passes.records import WORD

__all__ = ["BLOCK_WORDS", "Shapes", "Warps", "Wrote", "shapes", "warps_of", "without_unused", "words_of"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

# Words that are looked at together: what is worked out about them should stay in a core's own cache.
BLOCK_WORDS = 1 << 16
# Kinds of columns of which only matters whether something was written.
_WRITTEN_OR_NOT = ("clock", "ran")


class Warps(NamedTuple):
    """The warps that ran one section. area: position of the CTA; segment: position in its area. One each."""

    area: Ints
    segment: Ints


class Shapes(NamedTuple):
    """of: per warp its shape, from 0; warp: per shape the first warp that has it."""

    of: Ints
    warp: Ints


class Wrote(NamedTuple):
    """The words of the warps of one section. words: segments, of one warp of each shape; rows: in those."""

    warps: Warps
    shapes: Shapes
    words: Words
    rows: SectionRows


def warps_of(segments: Words, manifest: Manifest, index: int, started: Flags) -> Warps:
    """The warps that ran the section with this index, by CTA, then segment.

    segments: shape (CTAs, recorded warps, words); started: per CTA, whether it ran.
    """
    mine = np.zeros(segments.shape[:2], bool)
    mine[started] = True
    if len(manifest.sections) > 1:
        marker = manifest.sections[index].frames[0].offset // WORD.itemsize
        mine &= segments[:, :, marker] == index + 1
    if index:  # a warp of the kernel's body may have anything where a later partition has its marker
        mine &= segments[:, :, 0] != 1
    area, segment = np.nonzero(mine)
    return Warps(area.astype(np.int64), segment.astype(np.int64))


def shapes(segments: Words, warps: Warps, manifest: Manifest, section: Section, ring_log2: int) -> Shapes:
    """Tell the shapes of these warps apart; they ran `section`."""
    flags, counts = _words_that_matter(manifest, section, ring_log2, segments.shape[2])
    number_of: dict[bytes, int] = {}
    first: list[int] = []
    of = np.empty(len(warps.area), np.int64)
    of_cta = segments.shape[1]
    step = max(1, BLOCK_WORDS // max(1, of_cta * segments.shape[2])) * of_cta
    for begin in range(0, len(of), step):
        block = slice(begin, begin + step)
        words = words_of(segments, warps.area[block], warps.segment[block])
        written = words != 0
        written &= flags
        counted = words[:, counts]
        if (written == written[0]).all() and (counted == counted[0]).all():
            heads = np.zeros(1, np.int64)
        else:
            heads = _heads(written, counted)
        bits, numbers = np.packbits(written[heads], axis=1), counted[heads].view(np.uint8)
        both = np.concatenate([bits, numbers], axis=1)
        keys = both.view(np.dtype((np.void, both.shape[1])))[:, 0].tolist()
        first_with = dict(zip(reversed(keys), reversed(heads.tolist()), strict=True))
        for key, at in sorted(first_with.items(), key=itemgetter(1)):
            if key not in number_of:
                number_of[key] = len(first)
                first.append(begin + at)
        numbered = np.fromiter(map(number_of.__getitem__, keys), np.int64, len(keys))
        of[block] = np.repeat(numbered, np.diff(heads, append=len(words)))
    return Shapes(of, np.array(first, np.int64))


def _heads(written: Flags, counted: Words) -> Ints:
    """The warps that differ from the one before them."""
    opens = np.ones(len(written), bool)
    opens[1:] = (written[1:] != written[:-1]).any(axis=1)
    opens[1:] |= (counted[1:] != counted[:-1]).any(axis=1)
    return np.flatnonzero(opens)


def words_of(segments: Words, area: Ints, segment: Ints) -> Words:
    """The words of one or more warps, shape (warps, words); they may be a view."""
    of_cta = segments.shape[1]
    first, end = int(area[0]), int(area[-1]) + 1
    # Whole CTAs that follow each other are read in one piece.
    if len(area) == (end - first) * of_cta:
        place = area * of_cta + segment
        if (place == np.arange(first * of_cta, end * of_cta)).all():
            return segments[first:end].reshape(len(area), segments.shape[2])
    return segments[area, segment]


def without_unused(segments: Words, manifest: Manifest, ring_log2: int) -> Words:
    """The segments less what no warp has reached at their ends: rings may be far longer than needed.

    segments: shape (CTAs, recorded warps, words); so is the view that is returned.
    """
    words = manifest.fixed_bytes // WORD.itemsize
    for section in manifest.sections:
        rows: list[int] = []
        for frame in section.frames:
            if frame.parent < 0:
                rows.append(1)
                continue
            above = section.frames[frame.parent]
            at, width = manifest.start(above, ring_log2) // WORD.itemsize, len(above.columns)
            counts = segments[
                :, :, at + count_column(section, frame) : at + rows[above.index] * width : width
            ]
            rows.append(min(int(counts.max(initial=0)), frame.rows(ring_log2)))
            if frame.is_ring:
                start = manifest.start(frame, ring_log2) // WORD.itemsize
                words = max(words, start + rows[frame.index] * len(frame.columns))
    return segments[:, :, :words]


def _words_that_matter(
    manifest: Manifest, section: Section, ring_log2: int, words: int
) -> tuple[Flags, Ints]:
    """Of a segment's first words: a flag for all that count as written or not, and the places of counts."""
    flags = np.zeros(words, bool)
    counts: list[Ints] = [np.zeros(0, np.int64)]
    for frame in section.frames:
        start, width = manifest.start(frame, ring_log2) // WORD.itemsize, len(frame.columns)
        if not width:  # the passes found nothing to record here
            continue
        some = np.clip((words - start) // width, 0, frame.rows(ring_log2))
        rows = start + np.arange(some, dtype=np.int64) * width
        for at, column in enumerate(frame.columns):
            if column.kind in _WRITTEN_OR_NOT:
                flags[rows + at] = True
            elif column.kind == "count":
                counts.append(rows + at)
    return flags, np.concatenate(counts)
