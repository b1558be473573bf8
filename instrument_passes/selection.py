"""Which CTAs and warps of a kernel record: chosen before it is compiled, and stated in its manifest.

A CTA's area in the launch's buffer follows from the choice, so that memory goes to what is recorded:

    "spread"  one CTA of every 2^s by linear id, now this one, now that; area: id >> s
    "stride"  every 2^s-th CTA by linear id; area: id >> s. Older versions recorded so; it is only read
    "first"   the first 2^s CTAs; area: id
    "list"    the CTAs of a list; area: the position in it
    "sms"     CTAs that run on some SMs; area: a ticket, drawn from a counter behind the 2^s areas

`s` is decided at launch (LaunchBits.stride_log2). A CTA whose ticket finds no area records nothing, but it is
counted: the counter tells how many there were.

Grids tend to have a power of two of columns, and every 2^s-th CTA stands in few of them, or in one. So with
"spread" area k has CTA k * 2^s + d, where d is the upper s bits of k * SPREAD modulo 2^32: CTA 0 first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from instrument_passes.launch_bits import VECTOR, LaunchBits

__all__ = ["MAX_LISTED", "SPREAD", "TAGS", "Selection"]

# By mode: the range of Manifest.tag, its first value and how many there are. Apart, since programs that share
# a tag are given the same `s`, which must mean the same to them.
TAGS: Final = {
    "spread": (0, 509), "stride": (0, 509), "first": (509, 127), "list": (636, 127), "sms": (763, 127),
}  # fmt: skip
# A constant of MurmurHash3's, whose multiples fall evenly, also those that a column of a grid takes. Where
# work rises from column to column, of 2 to 1,024, what 64 to 256 of 4,096 to 65,536 CTAs tell is off by 1.4 %
# in the mean and 8 % at most; what every 2^s-th tells, by 50 and 83 %.
SPREAD: Final = 0x85EBCA6B
MAX_LISTED: Final = 256  # entries of a list: each costs two instructions at the start of the kernel


@dataclass(frozen=True, slots=True)
class Selection:
    """ctas: a mode, as above, "stride" in manifests that do not say; ids: the CTAs of mode "list" or the SMs
    of mode "sms", ascending; warps: those of a CTA that record, ascending, or () for all."""

    ctas: str = "stride"
    ids: tuple[int, ...] = ()
    warps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.ctas not in TAGS:
            raise ValueError(f"ctas={self.ctas!r} is none of {', '.join(TAGS)}")

    @property
    def is_sample(self) -> bool:
        """Whether the recorded CTAs speak for the grid: those of a list and the first ones do not."""
        return self.one_in_many or self.ctas == "sms"

    @property
    def one_in_many(self) -> bool:
        """Whether one CTA of every 2^s records."""
        return self.ctas in ("spread", "stride")

    @property
    def draws(self) -> bool:
        """Whether a CTA draws a ticket, and waits for it, to know its area."""
        return self.ctas == "sms"

    @property
    def counter_bytes(self) -> int:
        """Behind the areas: the counter that tickets are drawn from, in its own vector."""
        return VECTOR if self.draws else 0

    def areas(self, ctas: int, stride_log2: int) -> int:
        """CTA areas in the buffer of a launch of `ctas` CTAs."""
        if self.one_in_many:
            full = ctas >> stride_log2
            return full + int(self.cta(full, stride_log2) < ctas)
        if self.ctas == "list":
            return sum(cta < ctas for cta in self.ids)
        return min(ctas, 1 << stride_log2) if self.ctas == "first" else 1 << stride_log2

    def cta(self, area: Any, stride_log2: int) -> Any:
        """Which CTA records in an area, where one in many does; of an array of int64, an array."""
        within = area * SPREAD % (1 << 32) >> 32 - stride_log2 if self.ctas == "spread" else 0
        return (area << stride_log2) + within

    def fewer(self, ctas: int, bits: LaunchBits) -> LaunchBits | None:
        """The bits of a launch that records about half as much; None where it already records one CTA."""
        if self.ctas == "list" or self.areas(ctas, bits.stride_log2) <= 1:
            return None
        step = 1 if self.one_in_many else -1
        return LaunchBits(bits.stride_log2 + step, bits.ring_log2)
