"""Which CTAs and warps of a kernel record: chosen before it is compiled, and stated in its manifest.

A CTA's area in the launch's buffer follows from the choice, so that memory goes to what is recorded:

    "stride"  every 2^s-th CTA by linear id; area: id >> s
    "first"   the first 2^s CTAs; area: id
    "list"    the CTAs of a list; area: the position in it
    "sms"     CTAs that run on some SMs; area: a ticket, drawn from a counter behind the 2^s areas

`s` is decided at launch (LaunchBits.stride_log2). A CTA whose ticket finds no area records nothing, but it is
counted: the counter tells how many there were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from instrument_passes.launch_bits import VECTOR, LaunchBits

__all__ = ["MAX_LISTED", "TAGS", "Selection"]

# By mode: the range of Manifest.tag, its first value and how many there are. Apart, since programs that share
# a tag are given the same `s`, which must mean the same to them.
TAGS: Final = {"stride": (0, 509), "first": (509, 127), "list": (636, 127), "sms": (763, 127)}
MAX_LISTED: Final = 256  # entries of a list: each costs two instructions at the start of the kernel


@dataclass(frozen=True, slots=True)
class Selection:
    """ctas: a mode, as above; ids: the CTAs of mode "list" or the SMs of mode "sms", ascending; warps: those
    of a CTA that record, ascending, or () for all."""

    ctas: str = "stride"
    ids: tuple[int, ...] = ()
    warps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.ctas not in TAGS:
            raise ValueError(f"ctas={self.ctas!r} is none of {', '.join(TAGS)}")

    @property
    def is_sample(self) -> bool:
        """Whether the recorded CTAs speak for the grid: those of a list and the first ones do not."""
        return self.ctas in ("stride", "sms")

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
        if self.ctas == "stride":
            return -(-ctas // (1 << stride_log2))
        if self.ctas == "list":
            return sum(cta < ctas for cta in self.ids)
        return min(ctas, 1 << stride_log2) if self.ctas == "first" else 1 << stride_log2

    def fewer(self, ctas: int, bits: LaunchBits) -> LaunchBits | None:
        """The bits of a launch that records about half as much; None where it already records one CTA."""
        if self.ctas == "list" or self.areas(ctas, bits.stride_log2) <= 1:
            return None
        step = 1 if self.ctas == "stride" else -1
        return LaunchBits(bits.stride_log2 + step, bits.ring_log2)
