"""The role of a launch, decided by its number among the launches of its configuration.

| number | role |
|---|---|
| 0 | recorded |
| 1 to 4 p | bare, bare, recorded, recorded, and so on; each second one is timed |
| after these, multiples of n | recorded |
| all others | bare |

p is the number of pairs of `baseline=`, n is `every=`. A timed launch follows one of its own kind, because
the other binary leaves other instructions and data in the caches.

Launches of three kinds have no number and run bare: an autotuner's trials; launches of torch.compile while
the recorded binary is being built; and observed launches, which follow the first one until the observer has
its evidence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from operator import length_hint, mod
from typing import Final

__all__ = ["LaunchNumbers", "Policy"]

_FOREVER: Final = 1 << 62
_FIRST_PAIR: Final = 1
_OF_A_PAIR: Final = 4  # launches: bare, bare timed, recorded, recorded timed


@dataclass(frozen=True)
class Policy:
    """every: one launch in so many is recorded; observes: whether there is an observer to ask; pairs: of
    timed bare and recorded launches. All of each configuration."""

    every: int = 1
    observes: bool = False
    pairs: int = 0

    @cached_property
    def rest(self) -> int:
        """The first launch behind the pairs."""
        return _FIRST_PAIR + _OF_A_PAIR * self.pairs

    def is_bare(self, number: int) -> bool:
        """Whether the launch with this number, from 0, is bare; else it is recorded."""
        if self.is_of_pair(number):
            return (number - _FIRST_PAIR) % _OF_A_PAIR < 2
        return number % self.every != 0

    def is_of_pair(self, number: int) -> bool:
        """Whether the launch is one of a pair, or goes before one."""
        return _FIRST_PAIR <= number < self.rest

    def timed_pair(self, number: int) -> int | None:
        """The pair that a launch is timed for, from 0; None if it is not timed."""
        pair, at = divmod(number - _FIRST_PAIR, _OF_A_PAIR)
        return pair if self.is_of_pair(number) and at % 2 else None


class LaunchNumbers:
    """The numbers of one configuration's launches, over all threads.

    draw(): a launch begins. 0: it is recorded; another number: it is bare, and a negative one: it is none of
    the session's. None: the policy or the observer has to be asked, and `take` gives the launch its number.
    Behind the pairs, and once nothing is to be
    observed, drawing is one step of iterators in C: it takes no lock.

    observing: each launch behind the first draws None, so that the observer can be asked.
    """

    __slots__ = ("_lock", "_numbers", "_observed", "_paused", "_policy", "draw", "observing")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self.observing = policy.observes
        self._observed = 0  # launches
        self._numbers = iter(range(_FOREVER))
        self._paused = False
        self.draw: Callable[[], int | None] = repeat(None).__next__

    def take(self) -> int:
        """The number of a launch that has drawn None."""
        with self._lock:
            number = next(self._numbers)
            self._settle()
            return number

    def _settle(self) -> None:
        """Have launches draw what they are, if nobody has to be asked from the next one on."""
        if not (self._paused or self.observing or self._begun < self._policy.rest):
            self.draw = map(mod, self._numbers, repeat(self._policy.every)).__next__

    @property
    def _begun(self) -> int:
        """How many launches have a number."""
        return _FOREVER - length_hint(self._numbers)

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
            return self._observed + self._begun

    def pause(self) -> None:
        """Until `resume` every launch is bare, and has no number."""
        with self._lock:
            self._paused = True
            self.draw = repeat(-1).__next__

    def resume(self) -> None:
        """Go on with the number after the last one; paused or not."""
        with self._lock:
            self._paused = False
            self.draw = repeat(None).__next__
            self._settle()
