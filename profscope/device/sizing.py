"""The size of a launch's records: ring lengths that fit the kernel, and fewer CTAs if memory is short."""

from __future__ import annotations

from typing import NamedTuple

from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import (
    CTA_HEADER,
    LAUNCH_HEADER,
    MAX_AREA_BYTES,
    MAX_RING_LOG2,
    MIN_RING_LOG2,
    LaunchBits,
)

__all__ = [
    "Blocks",
    "must_be_zero",
    "needed_bytes",
    "plan",
    "ring_log2_for_rows",
]

# Rings of a kernel that has not run yet get so many rows if all of them together take no more than so many
# bytes, or all the memory there is: what they really need is known after its first launch.
_FIRST_RINGS = ((10, None), (14, 32 << 20), (MAX_RING_LOG2, 8 << 20))


class Blocks(NamedTuple):
    """Equal parts of a launch's buffer. offset: of the first, bytes from the start; areas, segments: how many
    there are, side by side and within; area_step, segment_step: bytes from one to the next; size: of each."""

    offset: int
    areas: int
    area_step: int
    segments: int
    segment_step: int
    size: int

    @property
    def total_bytes(self) -> int:
        return self.areas * self.segments * self.size


def ring_log2_for_rows(rows: int) -> int:
    """The shortest ring that holds `rows` rows."""
    return min(MAX_RING_LOG2, max(MIN_RING_LOG2, (rows - 1).bit_length()))


def needed_bytes(manifest: Manifest, ctas: int, bits: LaunchBits) -> int:
    """Bytes that a launch of `ctas` CTAs writes at most."""
    areas = manifest.selection.areas(ctas, bits.stride_log2)
    if not areas:
        return 0
    header = manifest.stamps_bytes(ctas) + LAUNCH_HEADER.itemsize
    return header + areas * manifest.cta_bytes(bits.ring_log2)


def must_be_zero(manifest: Manifest, ctas: int, bits: LaunchBits) -> tuple[Blocks, ...]:
    """The byte ranges of a buffer that must be zero before the launch: all but the rings. Only rows within
    the counts are read from rings, and a kernel writes its rows in full, since a ring may hold older ones."""
    areas = manifest.selection.areas(ctas, bits.stride_log2)
    area_step = manifest.cta_bytes(bits.ring_log2)
    first = manifest.stamps_bytes(ctas) + LAUNCH_HEADER.itemsize
    parts = [
        Blocks(0, 1, 0, 1, 0, first),
        Blocks(first, areas, area_step, 1, 0, CTA_HEADER.itemsize),
        Blocks(
            first + CTA_HEADER.itemsize, areas, area_step,
            manifest.warps, manifest.segment_bytes(bits.ring_log2), manifest.fixed_bytes,
        ),
    ]  # fmt: skip
    return tuple(part for part in parts if part.total_bytes)


def plan(
    manifest: Manifest, ctas: int, limit_bytes: int, ring_log2: int | None, stride_log2: int
) -> LaunchBits | None:
    """The records of a launch within limit_bytes; None if not even one CTA fits. Rings that are too long for
    a CTA's area are cut, and the drops counted.

    ring_log2: the rings' length if it was learned from an earlier launch, else None: then `_FIRST_RINGS`
    decides. stride_log2: the wanted CTAs (see `Selection`). More record if these are too few for a sample,
    fewer if memory is short, since a gap in the grid distorts less than a gap in time.
    """
    stride_log2 = manifest.selection.stride_log2(ctas, stride_log2)
    if ring_log2 is None:
        ring_log2 = MIN_RING_LOG2
        while manifest.ring_bytes and ring_log2 < MAX_RING_LOG2:
            longer = needed_bytes(manifest, ctas, LaunchBits(stride_log2, ring_log2 + 1))
            if longer > min(limit_bytes, _most_bytes(ring_log2 + 1) or limit_bytes):
                break
            ring_log2 += 1
    while ring_log2 > MIN_RING_LOG2 and manifest.cta_bytes(ring_log2) > MAX_AREA_BYTES:
        ring_log2 -= 1
    bits = LaunchBits(stride_log2, ring_log2)
    while needed_bytes(manifest, ctas, bits) > limit_bytes:
        fewer = manifest.selection.fewer(ctas, bits)
        if fewer is None:
            return None
        bits = fewer
    return bits


def _most_bytes(ring_log2: int) -> int | None:
    """How much a first launch may take with rings of this length; None for all there is."""
    return next(most for longest, most in _FIRST_RINGS if ring_log2 <= longest)
