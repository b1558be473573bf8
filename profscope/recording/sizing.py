"""How much a launch may record: ring lengths that fit the kernel, and fewer CTAs where memory is short."""

from __future__ import annotations

from instrument_passes.manifest import Manifest
from instrument_passes.records import LAUNCH_HEADER, MAX_AREA_BYTES, MAX_RING_LOG2, MIN_RING_LOG2, LaunchBits

__all__ = [
    "log2_for",
    "needed_bytes",
    "plan",
    "ring_log2_for_records",
    "ring_log2_for_rows",
    "tickets_for",
]

# Rings of a kernel that has not run yet get as many rows as fit, up to this; what they really need is known
# after its first launch. Longer ones take no more memory than that: all of it comes to the host.
_FIRST_RING_LOG2 = 14
_FIRST_BYTES = 64 << 20


def ring_log2_for_rows(rows: int) -> int:
    """The shortest ring that holds `rows` rows."""
    return min(MAX_RING_LOG2, max(MIN_RING_LOG2, (rows - 1).bit_length()))


def ring_log2_for_records(manifest: Manifest, records: int) -> int:
    """The longest rings that hold at most `records` records of a warp, over all of a section's rings."""
    width = max(
        sum(column.kind == "clock" for frame in section.frames if frame.is_ring for column in frame.columns)
        for section in manifest.sections
    )
    return min(MAX_RING_LOG2, max(MIN_RING_LOG2, (records // max(1, width)).bit_length() - 1))


def log2_for(count: int) -> int:
    """The smallest s with 2^s >= count."""
    return (count - 1).bit_length()


def tickets_for(ctas: int, chosen_sms: int, sm_count: int) -> int:
    """Areas for the CTAs of a launch that will run on some of the SMs: twice their share and a few, for SMs
    do not get equal numbers."""
    return 2 * -(-ctas * chosen_sms // sm_count) + 32


def needed_bytes(manifest: Manifest, ctas: int, bits: LaunchBits) -> int:
    """Bytes that a launch of `ctas` CTAs writes at most."""
    areas = manifest.selection.areas(ctas, bits.stride_log2)
    if not areas:
        return 0
    ends = LAUNCH_HEADER.itemsize + manifest.selection.counter_bytes
    return areas * manifest.cta_bytes(bits.ring_log2) + ends


def plan(
    manifest: Manifest, ctas: int, limit_bytes: int, ring_log2: int | None, stride_log2: int
) -> LaunchBits | None:
    """What a launch records within limit_bytes; None if not even one CTA fits. Rings longer than a CTA's area
    can be are cut, and the drops counted.

    ring_log2: the rings' length if it is settled (asked for, or learned from an earlier launch), else None:
    then they get all the memory there is. stride_log2: which CTAs are wanted (see `Selection`); more are left
    out as memory demands, since a gap in the grid distorts less than a gap in time.
    """
    if ring_log2 is None:
        ring_log2 = MIN_RING_LOG2
        while manifest.ring_bytes and ring_log2 < MAX_RING_LOG2:
            longer = needed_bytes(manifest, ctas, LaunchBits(stride_log2, ring_log2 + 1))
            if longer > limit_bytes or (ring_log2 >= _FIRST_RING_LOG2 and longer > _FIRST_BYTES):
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
