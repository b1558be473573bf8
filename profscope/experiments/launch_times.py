"""How much of a program's time the launches of a configuration take, from the times of some of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

__all__ = ["LaunchTimes", "is_power_of_two"]


@dataclass(eq=False)
class LaunchTimes:
    """count: launches so far. times: of some of them, in the timer's unit."""

    count: int = 0
    times: list[float] = field(default_factory=list)

    def total(self, count: int) -> float:
        """The time of so many launches; 0 if not known."""
        return count * statistics.fmean(self.times) if self.times else 0.0


def is_power_of_two(count: int) -> bool:
    """Whether it is 1, 2, 4, ...: launches at which to look again, of few and of many."""
    return count & (count - 1) == 0
