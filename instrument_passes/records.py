"""The binary record format: the one place where bytes of a profile buffer get a meaning.

A launch's buffer holds one area per recorded CTA::

    launch   = CTA area, CTA area, ...                 CTAs 0, 2^s, 2 * 2^s, ... by linear id, x fastest
    CTA area = header, warp segment, warp segment, ... one segment per warp
    segment  = frame, frame, ...                       one frame per instrumented loop body, and the root
    frame    = row, row, ...                           as many as are known statically, else a ring of 2^c
    row      = 32-bit words                            one per Column: clocks, counts, payloads

A frame is a table: every execution of a loop body by one warp appends one row, and what each word of the
row means is static and stands in the manifest, so records carry neither tags nor counters. Row number `n`
of a warp goes to ring slot `n % 2^c`; the parent's row stores how many rows a child frame holds so far,
which makes trip counts and drops exact. Word 0 of the root row marks the section (the warp program: the
kernel's body, or one warp-specialised partition) that wrote the segment.

How many CTAs are recorded (s) and how long the rings are (c) is decided at each launch, by the allocator:
it hands the kernel the buffer's address, which is a multiple of BASE_ALIGNMENT, with a LaunchBits in the low
bits. An address without the enable bit, as any other allocator gives, makes the kernel record nothing.

Buffers start zeroed. A word that is zero was not written: its code did not run.
All words are little endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

__all__ = [
    "BASE_ALIGNMENT",
    "CTA_HEADER",
    "MAGIC",
    "MAX_CTAS",
    "MAX_RING_LOG2",
    "MIN_RING_LOG2",
    "VECTOR",
    "VERSION",
    "WORD",
    "LaunchBits",
    "align",
    "byte_offset",
]

MAGIC: Final = 0x5350  # "PS"
VERSION: Final = 1
VECTOR: Final = 16  # bytes of the widest store; headers, segments and CTA areas are multiples of it
WORD: Final = np.dtype("<u4")
MAX_RING_LOG2: Final = 20
MAX_CTAS: Final = 1 << 31  # of a launch: linear ids go through signed 32-bit integers
MIN_RING_LOG2: Final = 4  # so that a ring of rows of any width is a multiple of VECTOR

# Written by one thread of the CTA: the first half when it enters the kernel, the second when it leaves. Each
# half is two vector stores and fills one 32-byte memory sector; short kernels pay mostly for this.
CTA_HEADER: Final = np.dtype(
    [
        ("start_clock", "<u8"),  # SM clock64, cycles
        ("start_globaltimer", "<u8"),  # ns
        ("version", "<u2"),
        ("magic", "<u2"),
        ("cta", "<u4"),  # linear CTA id in the launch, x fastest
        ("sm", "<u2"),
        ("cluster_rank", "<u2"),  # rank of this CTA in its cluster, 0 without clusters
        ("launch_bits", "<u4"),  # LaunchBits
        ("end_clock", "<u8"),  # 0 while the CTA runs
        ("end_globaltimer", "<u8"),
        ("grid_x", "<u4"),  # CTAs along x, those of all clusters
        ("grid_y", "<u4"),
        ("grid_z", "<u4"),
        ("digest", "<u4"),  # Manifest.digest: which program wrote this
    ]
)


@dataclass(frozen=True, slots=True)
class LaunchBits:
    """What the low bits of a buffer's address tell the kernel.

    stride_log2: every 2^stride_log2-th CTA records, or as `Selection` says. ring_log2: rings have 2^ring_log2
    rows.
    """

    stride_log2: int = 0
    ring_log2: int = 0

    STRIDE_SHIFT: ClassVar[int] = 1
    RING_SHIFT: ClassVar[int] = 6
    MASK: ClassVar[int] = 31  # of either field
    ENABLE: ClassVar[int] = 1

    def encode(self) -> int:
        return self.ENABLE | self.stride_log2 << self.STRIDE_SHIFT | self.ring_log2 << self.RING_SHIFT

    @staticmethod
    def decode(bits: int) -> LaunchBits:
        cls = LaunchBits
        return cls(bits >> cls.STRIDE_SHIFT & cls.MASK, bits >> cls.RING_SHIFT & cls.MASK)


BASE_ALIGNMENT: Final = 1 << (LaunchBits.RING_SHIFT + LaunchBits.MASK.bit_length())


def align(size: int, to: int) -> int:
    """`size` bytes rounded up to a multiple of `to`."""
    return -(-size // to) * to


def byte_offset(field: str) -> int:
    """Byte offset of a header field, for the lowering that stores it. Raises KeyError for an unknown one."""
    fields = CTA_HEADER.fields
    assert fields is not None
    return int(fields[field][1])
