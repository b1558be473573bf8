"""How often to take a sample: so that a kernel has enough of them, and the hardware loses few."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

__all__ = ["ANY", "ENOUGH", "FIRST", "FREQUENT", "RARE", "Periods", "periods_after"]

FREQUENT: Final = 5  # the shortest period that the hardware knows: a sample each 32 cycles
RARE: Final = 20
FIRST: Final = 12
ENOUGH: Final = 1_000  # samples of a launch
_WANTED: Final = 8_000  # tell a share of a tenth to a third of a percent
_MANY: Final = 120_000  # take 12 ms to fetch
_MOST_DROPPED: Final = 0.01


@dataclass(frozen=True)
class Periods:
    """The log2 of the cycles between two samples: the shortest and the longest that do, and the best."""

    shortest: int
    best: int
    longest: int

    def near(self, period_log2: int) -> int:
        """The same period if it does, else the best. To set another one takes 0.13 s (H200, CUPTI 13.0)."""
        return period_log2 if self.shortest <= period_log2 <= self.longest else self.best


ANY: Final = Periods(FREQUENT, FIRST, RARE)


def periods_after(period_log2: int, taken: int, dropped: int) -> Periods:
    """Those for the next launch of a kernel, after one that had so many samples: from ENOUGH to _MANY."""
    if dropped > _MOST_DROPPED * (taken + dropped):
        longer = 1 + math.ceil(math.log2((taken + dropped) / max(taken, 1)))
        period = min(period_log2 + longer, RARE)
        return Periods(period, period, RARE)

    def with_samples(samples: int) -> float:
        return period_log2 + math.log2(max(taken, 1) / samples)

    shortest = _within(math.ceil(with_samples(_MANY)))
    longest = max(_within(math.floor(with_samples(ENOUGH))), shortest)
    best = min(max(round(with_samples(_WANTED)), shortest), longest)
    return Periods(shortest, best, longest)


def _within(period_log2: int) -> int:
    return min(max(period_log2, FREQUENT), RARE)
