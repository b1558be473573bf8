"""What a launch tells its kernel in bits of the buffer's address: part of the format of `records.py`.

Apart from that, so that options and selections can be checked without numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = [
    "ADDRESS_BITS",
    "BASE_ALIGNMENT",
    "MAX_RING_LOG2",
    "MIN_RING_LOG2",
    "TURNS",
    "VECTOR",
    "LaunchBits",
]

VECTOR: Final = 16  # bytes of the widest store
MAX_RING_LOG2: Final = 20
MIN_RING_LOG2: Final = 4  # so that a ring of rows of any width is a multiple of VECTOR


@dataclass(frozen=True, slots=True)
class LaunchBits:
    """What the low bits of a buffer's address tell the kernel.

    stride_log2: one CTA of every 2^stride_log2 records, or as `Selection` says. ring_log2: rings have
    2^ring_log2 rows; what is encoded is how much that is above MIN_RING_LOG2, modulo 32. ENABLE is as many
    bits as a thread's number in its warp has, so that the kernel tests both at once.
    """

    stride_log2: int = 0
    ring_log2: int = MIN_RING_LOG2

    ENABLE: ClassVar[int] = 31
    STRIDE_SHIFT: ClassVar[int] = 5
    RING_SHIFT: ClassVar[int] = 10
    MASK: ClassVar[int] = 31  # of either field

    def encode(self) -> int:
        ring = self.ring_log2 - MIN_RING_LOG2 & self.MASK
        return self.ENABLE | self.stride_log2 << self.STRIDE_SHIFT | ring << self.RING_SHIFT

    @staticmethod
    def decode(bits: int) -> LaunchBits:
        cls = LaunchBits
        ring = bits >> cls.RING_SHIFT & cls.MASK
        return cls(bits >> cls.STRIDE_SHIFT & cls.MASK, MIN_RING_LOG2 + ring & cls.MASK)


ADDRESS_BITS: Final = 57  # of a GPU's addresses at most; the bits above them are the launch's turn
_TURN_BITS: Final = 64 - ADDRESS_BITS
TURNS: Final = tuple(
    int(f"{number:0{_TURN_BITS}b}"[::-1], 2) << ADDRESS_BITS for number in range(1 << _TURN_BITS)
)
"""What is added to the addresses of launches that follow each other, over and over, so that other CTAs
record in each (see `Selection`). Bits are reversed: any 2^s in a row have all values of the upper s bits,
for s up to 7."""
BASE_ALIGNMENT: Final = 1 << (LaunchBits.RING_SHIFT + LaunchBits.MASK.bit_length())
