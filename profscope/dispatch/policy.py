"""Which role a launch has, by its number among the launches of its configuration alone, and these numbers.

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
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from operator import length_hint
from typing import Any, Final

__all__ = ["BARE", "OBSERVED", "Policy", "Role", "Turns"]

BARE: Final = "bare"
_FOREVER: Final = 1 << 62
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

    def bare_from(self, number: int) -> int:
        """How many launches in a row, from this one on, are bare and nothing else."""
        if number < self._rest:
            return 0
        return -number % self.every


class Turns:
    """The numbers of one configuration's launches, over all threads, at next to no cost for the bare ones.

    draw(): a launch begins. It returns BARE if the policy has nothing else for it; else None, and then
    `take` gives the launch its number. Drawing is one step of an iterator in C: it takes no lock.

    observing: each launch behind the first draws None, so that the observer can be asked.
    """

    __slots__ = ("_begun", "_left", "_lock", "_observed", "_policy", "draw", "observing")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self.observing = policy.observes
        self._observed = 0  # launches
        self._begun = 0  # launches that have a number, or whose turn in `_left` is planned
        self._begin(0)

    def _begin(self, number: int) -> None:
        """The launch with this number is next."""
        self._plan(0 if self.observing else self._policy.bare_from(number))

    def _plan(self, launches: int) -> None:
        """So many launches are bare, from the next one on."""
        self._begun += launches
        self._left = repeat(BARE, launches)
        self.draw: Callable[[], Any] = partial(next, self._left, None)

    def take(self) -> int | None:
        """The number of the launch that has drawn None; None if it is bare after all: another thread was
        quicker, and its launch has taken this turn."""
        with self._lock:
            if next(self._left, None) is not None:
                return None
            number = self._begun
            self._begun += 1
            bare = 0 if self.observing else self._policy.bare_from(number + 1)
            if bare:
                self._plan(bare)
            return number

    @property
    def is_first(self) -> bool:
        """Whether no launch has a number yet."""
        return not self._begun

    def observe(self) -> None:
        """A launch that has drawn None is observed."""
        with self._lock:
            self._observed += 1

    @property
    def launches(self) -> int:
        """How many have begun, observed ones too."""
        with self._lock:
            return self._observed + self._begun - length_hint(self._left)

    def pause(self) -> None:
        """Until `resume` every launch is bare, and has no number."""
        with self._lock:
            self._begun -= length_hint(self._left)
            self._left = repeat(BARE, 0)
            self.draw = repeat(BARE, _FOREVER).__next__

    def resume(self) -> None:
        """Go on with the number after the last one; paused or not."""
        with self._lock:
            self._begun -= length_hint(self._left)
            self._begin(self._begun)
