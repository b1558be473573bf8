"""Which role a launch has, by its number among the launches of its configuration alone.

| number | role |
|---|---|
| 0 | recorded |
| the 4 p that follow | pairs: two bare launches, two recorded ones, p times; each second one is timed |
| any other multiple of n | recorded |
| any other | bare |

p is the number of pairs of `baseline=`, n is `every=`. A timed launch follows one of its own kind, since
another binary leaves other instructions and data in the caches.

Launches of three kinds have no number and run bare: an autotuner's trials; those of torch.compile while their
binary is being built; and those observed, behind the first launch, which run under the hardware's instruments
as long as the observer asks for more. In the place of a number these have OBSERVED.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import Final

__all__ = ["FOREVER", "OBSERVED", "Policy", "Role"]

FOREVER: Final = 1 << 62
OBSERVED: Final = -1
_FIRST_PAIR: Final = 1
_OF_A_PAIR: Final = 4  # launches: bare, bare timed, recorded, recorded timed


class Role(enum.Enum):
    """What a launch is."""

    BARE = "bare"
    RECORDED = "recorded"
    OBSERVED = "observed"


@dataclass(frozen=True)
class Policy:
    """every: one launch in so many is recorded; observes: whether there is an observer to ask; pairs: of
    timed bare and recorded launches. All of each configuration."""

    every: int = 1
    observes: bool = False
    pairs: int = 0

    @cached_property
    def _rest(self) -> int:
        """The first launch behind the pairs."""
        return _FIRST_PAIR + _OF_A_PAIR * self.pairs

    def role(self, number: int) -> Role:
        """Of the launch with this number, from 0, or OBSERVED."""
        if number == OBSERVED:
            return Role.OBSERVED
        if self.is_of_pair(number):
            return Role.BARE if (number - _FIRST_PAIR) % _OF_A_PAIR < 2 else Role.RECORDED
        return Role.BARE if number % self.every else Role.RECORDED

    def is_of_pair(self, number: int) -> bool:
        """Whether the launch is one of a pair, or goes before one."""
        return _FIRST_PAIR <= number < self._rest

    def timed_pair(self, number: int) -> int | None:
        """The pair that a launch is timed for, from 0; None if it is not timed."""
        pair, at = divmod(number - _FIRST_PAIR, _OF_A_PAIR)
        return pair if self.is_of_pair(number) and at % 2 else None

    def is_fixed(self, number: int) -> bool:
        """Whether a launch has its role whatever recording costs: the first one, and those of pairs."""
        return number < self._rest

    def bare_from(self, number: int) -> int:
        """How many launches in a row, from this one on, are bare and nothing else."""
        if number < self._rest:
            return 0
        return -number % self.every
