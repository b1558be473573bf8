"""How often to take a sample: so that a kernel has enough of them, and the hardware loses few."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["ENOUGH", "FIRST", "FREQUENT", "RARE", "next_period"]

FREQUENT: Final = 5  # the shortest period that the hardware knows: a sample each 32 cycles
RARE: Final = 20
FIRST: Final = 12
ENOUGH: Final = 1_000  # samples of a launch
_WANTED: Final = 8_000  # tell a share of a tenth to a third of a percent
# To fetch so many takes 12 ms; to set another period, so that there are fewer, takes 0.13 s.
_MANY: Final = 120_000
_MOST_DROPPED: Final = 0.01


def next_period(period_log2: int, taken: int, dropped: int) -> int:
    """The log2 of the cycles between two samples for the next launch of a kernel, after one that had so
    many samples."""
    if dropped > _MOST_DROPPED * (taken + dropped):
        longer = 1 + math.ceil(math.log2((taken + dropped) / max(taken, 1)))
        return min(period_log2 + longer, RARE)
    if ENOUGH <= taken <= _MANY:
        return period_log2
    step = math.log2(max(taken, 1) / _WANTED)
    return min(max(period_log2 + round(step), FREQUENT), RARE)
