"""The CTAs of a kernel that record: chosen before it is compiled, and stated in its manifest.

    no list   one CTA of every 2^s by linear id, now this one, now that; area: id >> s
    a list    the CTAs of the list; area: the position in it

A CTA's area in the launch's buffer follows from the choice, so that memory goes to the CTAs that record. `s`
is decided at launch (LaunchBits.stride_log2).

Grids tend to have a power of two of columns, and every 2^s-th CTA stands in few of them, or in one. So area k
has CTA k * 2^s + d, where d is the upper s bits of k * SPREAD modulo 2^32. The launch's turn, which the bits
above the address hold (LaunchBits), flips some of them: so other CTAs record in each launch, and in 2^s
launches in a row, up to 128, each CTA does once. In a launch without a turn CTA 0 is first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

__all__ = [
    "ADDRESS_BITS",
    "BASE_ALIGNMENT",
    "FEWEST",
    "MAX_LISTED",
    "MAX_RING_LOG2",
    "MIN_RING_LOG2",
    "SPREAD",
    "TURNS",
    "VECTOR",
    "LaunchBits",
    "Selection",
]

# Found by search among odd numbers: its multiples fall evenly, few of them and many, also those that a column
# of a grid takes. Where work rises from column to column, of 2 to 1,024, what 64 to 256 of 4,096 to 65,536
# CTAs tell is off by 1.0 % in the mean and 4.4 % at most; what every 2^s-th tells, by 50 and 83 %. Of 8 CTAs
# the total is off by more than three of its standard errors in 1 of 140 grids (1 of 18 with a constant of
# MurmurHash3's, which takes only even CTAs, or only odd ones, of 32).
SPREAD: Final = 0xEC6C81ED
FEWEST: Final = 8
"""CTAs of a launch that record at least. A standard deviation from n of them has a standard error of
1 / sqrt(2 (n - 1)) of its own, more than a quarter of it here (S. Ahn and J. A. Fessler, "Standard errors of
mean, variance, and standard deviation estimators", 2003)."""
MAX_LISTED: Final = 256  # entries of a list: each costs two instructions at the start of the kernel
# First value of Manifest.tag and how many there are. Apart, since programs that share a tag are given the
# same `s`, which a list does not have.
_SPREAD_TAGS: Final = (0, 509)
_LIST_TAGS: Final = (509, 127)


@dataclass(frozen=True, slots=True)
class Selection:
    """ids: the CTAs that record, ascending; () for one in many, spread over the grid."""

    ids: tuple[int, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether the recorded CTAs represent the grid: those of a list do not."""
        return not self.ids

    @property
    def tags(self) -> tuple[int, int]:
        """The first tag (see `Manifest.tag`) of programs that choose so, and how many there are."""
        return _LIST_TAGS if self.ids else _SPREAD_TAGS

    def areas(self, ctas: int, stride_log2: int) -> int:
        """CTA areas in the buffer of a launch of `ctas` CTAs; in some turns the last may be of no CTA."""
        if self.ids:
            return sum(cta < ctas for cta in self.ids)
        return -(-ctas >> stride_log2)

    def stride_log2(self, ctas: int, wanted_log2: int) -> int:
        """The stride of a launch of `ctas` CTAs: as wanted, or less, so that FEWEST record, or all."""
        return wanted_log2 if self.ids else min(wanted_log2, max(0, (ctas // FEWEST).bit_length() - 1))

    @staticmethod
    def cta(area: Any, stride_log2: int, flips: Any = 0) -> Any:
        """Which CTA records in an area, where one in many does; of an array of int64, an array. flips: see
        `flips`."""
        return (area << stride_log2) + (area * SPREAD % (1 << 32) >> 32 - stride_log2 ^ flips)

    @staticmethod
    def flips(area: Any, cta: Any, stride_log2: int) -> Any:
        """Which of the s bits of d the turn of a launch flips, by a CTA that recorded in an area."""
        return cta - (area << stride_log2) ^ area * SPREAD % (1 << 32) >> 32 - stride_log2

    def fewer(self, ctas: int, bits: LaunchBits) -> LaunchBits | None:
        """The bits of a launch that records about half as much; None if one could record no CTA."""
        if self.ids or ctas >> bits.stride_log2 <= 1:
            return None
        return LaunchBits(bits.stride_log2 + 1, bits.ring_log2)


# What a launch tells its kernel in bits of the buffer's address: part of the format of `records.py`.
#
# Apart from that, so that options and selections can be checked without numpy.

VECTOR: Final = 16  # bytes of the widest store
MAX_RING_LOG2: Final = 20
MIN_RING_LOG2: Final = 4  # so that a ring of rows of any width is a multiple of VECTOR


@dataclass(frozen=True, slots=True)
class LaunchBits:
    """The fields in the low bits of a buffer's address.

    stride_log2: one CTA of every 2^stride_log2 records, or as `Selection` says. ring_log2: rings have
    2^ring_log2 rows; encoded is its excess over MIN_RING_LOG2, modulo 32. ENABLE is as many bits as a
    thread's number in its warp has, so that the kernel tests both at once.
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
