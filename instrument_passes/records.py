"""The binary record format: the one place where bytes of a profile buffer get a meaning.

A launch's buffer holds one area per CTA, in the order of the linear CTA id (x fastest)::

    launch   = CTA area, CTA area, ...                 Manifest.cta_bytes each
    CTA area = header, warp segment, warp segment, ... one segment per warp, Manifest.segment_bytes each
    segment  = frame, frame, ...                       one frame per instrumented loop body, and the root
    frame    = row, row, ...                           a ring of Frame.capacity rows
    row      = 32-bit words                            one per Column: clocks, counts, payloads

A frame is a table: every execution of a loop body by one warp appends one row, and what each word of the
row means is static and stands in the manifest, so records carry neither tags nor counters. Row number `n`
of a warp goes to ring slot `n % capacity`; the parent's row stores how many rows a child frame holds so
far, which makes trip counts and drops exact. Word 0 of the root row marks the section (the warp program:
the kernel's body, or one warp-specialised partition) that wrote the segment.

Buffers start zeroed. A word that is zero was not written: its code did not run.
All words are little endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["ALIGNMENT", "CTA_HEADER", "CTA_STRIDE", "MAGIC", "VERSION", "WORD", "align", "word_offset"]

MAGIC: Final = 0x50534331  # "PSC1"
VERSION: Final = 1
ALIGNMENT: Final = (
    256  # bytes; what the scratch allocation asks for: Proton asks for 128, which tells them apart
)
CTA_STRIDE: Final = 32  # bytes; CTA areas are whole memory sectors
WORD: Final = np.dtype("<u4")

# Written by one thread of the CTA: the start pair when it enters the kernel, the rest when it leaves.
# Fields come in groups of 16 bytes because each group is one vector store.
CTA_HEADER: Final = np.dtype(
    [
        ("start_clock", "<u8"),  # SM clock64, cycles
        ("start_globaltimer", "<u8"),  # ns
        ("end_clock", "<u8"),
        ("end_globaltimer", "<u8"),
        ("magic", "<u4"),
        ("version", "<u4"),
        ("cta", "<u4"),  # linear CTA id in the launch, x fastest
        ("sm", "<u4"),
        ("grid_x", "<u4"),  # CTAs along x, clusters counted out
        ("grid_y", "<u4"),
        ("grid_z", "<u4"),
        ("cluster_rank", "<u4"),  # rank of this CTA in its cluster, 0 without clusters
        ("digest_low", "<u4"),  # low and high half of Manifest.digest: which program wrote this
        ("digest_high", "<u4"),
        ("warps", "<u4"),  # segments that follow
        ("reserved", "<u4"),
    ]
)


def align(size: int, to: int) -> int:
    """`size` bytes rounded up to a multiple of `to`."""
    return -(-size // to) * to


def word_offset(field: str) -> int:
    """Byte offset of a header field, for the lowering that stores it. Raises KeyError for an unknown one."""
    fields = CTA_HEADER.fields
    assert fields is not None
    return int(fields[field][1])
