"""Trims the buffer of a launch to the ring lengths that it needed.

A kernel's first launch gets rings by guess, and only what must be zero of its memory is made so (see
`sizing.must_be_zero`): unwritten parts may hold anything, and must not be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import launch_header, packed_headers, read_buffer, segments
from profscope.decoding.decode import ring_rows
from profscope.decoding.rows import count_column
from profscope.decoding.shapes import Warps, warps_of
from profscope.device.sizing import ring_log2_for_rows
from profscope.errors import RecordError
from profscope.instrument_passes.manifest import Frame, Manifest, Section
from profscope.instrument_passes.records import BASE_ALIGNMENT, LAUNCH_HEADER, MIN_RING_LOG2, WORD, LaunchBits

__all__ = ["RingNeed", "has_full_ring", "ring_need", "trimmed"]

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]


class RingNeed(NamedTuple):
    """ring_log2: how long rings must be that hold what a launch recorded. is_shown: whether it came to its
    end and ran a loop that has a ring; else other launches may need more."""

    ring_log2: int
    is_shown: bool


def ring_need(buffer: Bytes, manifest: Manifest) -> RingNeed:
    """The state of a launch's rings."""
    try:
        rows = ring_rows(buffer, manifest)
        ended = bool((read_buffer(buffer, manifest).ctas["end_clock"] != 0).all())
    except RecordError:  # the profile will say what is wrong with it
        return RingNeed(MIN_RING_LOG2, is_shown=False)
    return RingNeed(ring_log2_for_rows(rows), is_shown=ended and rows > 0)


def has_full_ring(buffer: Bytes, manifest: Manifest) -> bool:
    """Whether a warp may have appended more rows to a ring than it has: its last one is written. Costs far
    less than `ring_need`. buffer: one whose rings were zero."""
    try:
        launch = read_buffer(buffer, manifest)
    except RecordError:  # the profile will say what is wrong with it
        return False
    ring_log2 = launch.bits.ring_log2
    words = segments(launch.data, len(launch.ctas), manifest, ring_log2)
    rings = (frame for section in manifest.sections for frame in section.frames if frame.is_ring)
    return any(_slots(words, manifest, ring, ring_log2, ring_log2)[:, :, -1].any() for ring in rings)


def trimmed(buffer: Bytes, manifest: Manifest) -> Bytes:
    """The same records in a new buffer: with the shortest rings that hold all rows of the old ones, and zeros
    where there is no row.

    buffer: uint8, one launch's. Raises RecordError (see `read_buffer`).
    """
    launch = read_buffer(buffer, manifest)
    long_log2 = launch.bits.ring_log2
    words = segments(launch.data, len(launch.ctas), manifest, long_log2)
    started = launch.ctas["start_clock"] != 0
    rings = [
        ring
        for index, section in enumerate(manifest.sections)
        for ring in _rings(words, manifest, section, warps_of(words, manifest, index, started), long_log2)
    ]
    most = max((int(rows.max(initial=0)) for _, rows in rings), default=0)
    bits = replace(launch.bits, ring_log2=min(long_log2, ring_log2_for_rows(most)))
    short = _without_rings(launch.data, manifest, long_log2, bits)
    kept = segments(short, len(launch.ctas), manifest, bits.ring_log2)
    for frame, rows in rings:
        source = _slots(words, manifest, frame, long_log2, bits.ring_log2)
        target = _slots(kept, manifest, frame, bits.ring_log2, bits.ring_log2)
        written = np.arange(1 << bits.ring_log2) < rows[:, :, None]
        np.copyto(target, source, where=written[..., None])
    return short


def _rings(
    words: Words, manifest: Manifest, section: Section, warps: Warps, ring_log2: int
) -> Iterator[tuple[Frame, Ints]]:
    """The rings of a section, each with the rows that warps appended to it: shape (CTAs, recorded warps), 0
    for warps that did not run the section. warps: those that did."""
    newest: list[Ints] = []  # by frame: the slot of each warp's last row, -1 where there is none
    for frame in section.frames:
        newest.append(np.full(words.shape[:2], -1, np.int64))
        if frame.parent < 0:
            newest[-1][warps.area, warps.segment] = 0
            continue
        above, slot = section.frames[frame.parent], newest[frame.parent]
        count = manifest.start(above, ring_log2) // WORD.itemsize + count_column(section, frame)
        at = count + np.maximum(slot, 0) * len(above.columns)
        counted = np.take_along_axis(words, at[:, :, None], axis=2)[:, :, 0].astype(np.int64)
        rows = np.where(slot >= 0, counted, 0)
        newest[-1][rows > 0] = (rows[rows > 0] - 1) % frame.rows(ring_log2)
        if frame.is_ring:
            yield frame, rows


def _slots(words: Words, manifest: Manifest, frame: Frame, ring_log2: int, slots_log2: int) -> Words:
    """The first 2^slots_log2 slots of a ring, shape (CTAs, recorded warps, slots, words), a view.

    words: segments whose rings are 2^ring_log2 rows long.
    """
    start, shape = manifest.start(frame, ring_log2) // WORD.itemsize, (1 << slots_log2, len(frame.columns))
    return words[:, :, start : start + shape[0] * shape[1]].reshape(*words.shape[:2], *shape)


def _without_rings(buffer: Bytes, manifest: Manifest, ring_log2: int, bits: LaunchBits) -> Bytes:
    """A buffer as `bits` say, with all that another one, whose rings are 2^ring_log2 rows long, has beside
    them; the rings are zero."""
    begin = LAUNCH_HEADER.itemsize
    areas = (len(buffer) - begin) // manifest.cta_bytes(ring_log2)
    short = np.zeros(begin + areas * manifest.cta_bytes(bits.ring_log2), np.uint8)
    short[:begin] = buffer[:begin]
    header = launch_header(short)
    header["launch_bits"] = int(header["launch_bits"]) // BASE_ALIGNMENT * BASE_ALIGNMENT | bits.encode()
    both = [(short, bits.ring_log2), (buffer, ring_log2)]
    headers, old_headers = (packed_headers(each, areas, manifest.cta_bytes(log2)) for each, log2 in both)
    headers[:] = old_headers
    fixed, old_fixed = (
        segments(each, areas, manifest, log2)[:, :, : manifest.fixed_bytes // WORD.itemsize]
        for each, log2 in both
    )
    fixed[:] = old_fixed
    return short
