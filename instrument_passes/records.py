"""The binary record format of a profile buffer.

A launch's buffer holds one area per recorded CTA, and a stamp for every other one::

    launch   = stamps, header, CTA area, CTA area, ... one CTA of every 2^s by linear id, x fastest
    CTA area = header, warp segment, warp segment, ... one segment per warp
    segment  = frame, frame, ...                       one frame per instrumented loop body, and the root
    frame    = row, row, ...                           as many as are known statically, else a ring of 2^c
    row      = 32-bit words                            one per Column: clocks, counts, payloads

A frame is a table: every execution of a loop body by one warp appends one row, and what each word of the
row means is static and stands in the manifest, so records carry neither tags nor counters. Row number `n`
of a warp goes to ring slot `n % 2^c`; the parent's row stores how many rows a child frame holds so far,
which makes trip counts and drops exact. In a warp-specialised kernel word 0 of the root row marks the section
(the warp program: the kernel's body, or one partition) that wrote the segment.

How many CTAs are recorded (s) and how long the rings are (c) is decided at each launch, by the allocator: it
hands the kernel the buffer's address, a multiple of BASE_ALIGNMENT, with a LaunchBits in the low bits. An
address without the enable bits, as any other allocator gives, makes the kernel record nothing.

A short CTA pays for the memory it touches and the instructions of its header. So areas consist of whole
SECTORs, a CTA's header is one, and facts that one CTA of the launch can state are in the launch's header.

Stamps are there if the program writes some (Manifest.stamps) and the grid has at most MAX_STAMPED CTAs: one
for each CTA by linear id, those that record included, which leave theirs zero.

Buffers start zeroed, but for their rings. A word that is zero was not written: its code did not run. The rows
of a ring that counts vouch for have all of their words: those that may not be written are cleared first.
All words are little endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.selection import (
    BASE_ALIGNMENT,
    MAX_RING_LOG2,
    MIN_RING_LOG2,
    VECTOR,
    LaunchBits,
)

__all__ = [
    "BASE_ALIGNMENT",
    "CTA_HEADER",
    "DURATION_SHIFT",
    "FLOAT32_ONE",
    "LAUNCH_HEADER",
    "MAX_AREA_BYTES",
    "MAX_CTAS",
    "MAX_RING_LOG2",
    "MAX_STAMPED",
    "MIN_RING_LOG2",
    "PLACE_RANK_SHIFT",
    "SECTOR",
    "STAMP",
    "STAMPS_ALIGN",
    "VECTOR",
    "WORD",
    "LaunchBits",
    "align",
    "byte_offset",
    "cta_header_offset",
    "stamp_duration_ns",
]

SECTOR: Final = 32  # bytes in which a GPU's memory is written; CTA areas are multiples of it
WORD: Final = np.dtype("<u4")
MAX_AREA_BYTES: Final = 1 << 31  # of a CTA: kernels work its size out in 32 bits
MAX_CTAS: Final = 1 << 31  # of a launch: linear ids go through signed 32-bit integers

# Written by one thread of the CTA with the first area, in one vector store. As long as two sectors, which a
# GPU's memory takes at a time, so that areas of as many bytes lie in them evenly.
LAUNCH_HEADER: Final = np.dtype(
    [
        ("launch_bits", "<u4"),  # LaunchBits; what is above them is meaningless
        ("digest", "<u4"),  # Manifest.digest: which program wrote this
        ("grid_x", "<u4"),  # CTAs along x, those of all clusters
        ("grid_y", "<u4"),  # along z there are as many as make up the launch
        ("reserved", "V48"),
    ]
)

# Written by one thread of the CTA, in two vector stores: one when it enters the kernel, one when it leaves.
CTA_HEADER: Final = np.dtype(
    [
        ("start_clock_low", "<u4"),  # of the SM's clock64, cycles
        ("cta", "<u4"),  # linear CTA id in the launch, x fastest
        ("start_ns_low", "<u4"),  # globaltimer, bits 0 to 31
        ("place", "<u2"),  # SM id, and above PLACE_RANK_SHIFT the rank in the cluster, 0 without clusters
        ("start_ns_high", "<u2"),  # globaltimer, bits 32 to 47
        ("end_clock", "<u8"),  # SM clock64, cycles; 0: the CTA has not left the kernel, or wrote nothing
        ("end_globaltimer", "<u8"),  # ns
    ]
)
PLACE_RANK_SHIFT: Final = 12  # a cluster has at most 16 CTAs

# Written by one thread of a CTA that does not record, in one vector store when that thread leaves the kernel.
STAMP: Final = np.dtype(
    [
        ("start_clock_low", "<u4"),  # of the SM's clock64 when the thread began, cycles
        ("start_ns_low", "<u4"),  # globaltimer, read with it, bits 0 to 31
        ("duration_cycles", "<u4"),  # until the thread left; 0: the CTA has not left the kernel
        (
            "place",
            "<u4",
        ),  # SM id, and above PLACE_RANK_SHIFT the duration in ns as `stamp_duration_ns` has it
    ]
)
FLOAT32_ONE: Final = 0x3F800000
DURATION_SHIFT: Final = 8  # of float32 bits less FLOAT32_ONE: what is below is not kept
MAX_STAMPED: Final = 1 << 12  # of a larger launch half of so many at either end: about what fits on an H200
STAMPS_ALIGN: Final = LAUNCH_HEADER.itemsize  # so that what follows them lies as it does without


def align(size: int, to: int) -> int:
    """`size` bytes rounded up to a multiple of `to`."""
    return -(-size // to) * to


def stamp_duration_ns(place: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """How long CTAs ran by the globaltimer, from the `place` of their stamps.

    Its 20 bits are the upper ones of a float32 whose exponent is counted from 1 ns: 16 significant bits,
    rounded down, so up to 65 us, or of a timer with steps of 32 ns up to 2 ms, exact. Less than 1 ns is 1 ns.
    """
    bits = (place >> PLACE_RANK_SHIFT << DURATION_SHIFT) + np.uint32(FLOAT32_ONE)
    return bits.astype("<u4").view("<f4").astype(np.int64)


def byte_offset(header: np.dtype[np.void], field: str) -> int:
    """Byte offset of a header's field, for the lowering that stores it. Raises KeyError if there is none."""
    fields = header.fields
    assert fields is not None
    return int(fields[field][1])


def cta_header_offset(field: str) -> int:
    """Byte offset of a field of the CTA header from where the lowering counts: the area's address less the
    launch header's size. Raises KeyError if there is none."""
    return LAUNCH_HEADER.itemsize + byte_offset(CTA_HEADER, field)
