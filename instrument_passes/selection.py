"""Which CTAs of a kernel record: chosen before it is compiled, and stated in its manifest.

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
from typing import Any, Final

from instrument_passes.launch_bits import LaunchBits

__all__ = ["FEWEST", "MAX_LISTED", "SPREAD", "Selection"]

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
        """The bits of a launch that records about half as much; None where one could record no CTA."""
        if self.ids or ctas >> bits.stride_log2 <= 1:
            return None
        return LaunchBits(bits.stride_log2 + 1, bits.ring_log2)
