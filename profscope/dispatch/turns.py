"""The numbers of one configuration's launches, over all threads, at next to no cost for the bare ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any, Final

from profscope.dispatch.policy import FOREVER, Policy

__all__ = ["BARE", "Turns"]

BARE: Final = "bare"


class Turns:
    """draw(): a launch begins. It returns BARE if the policy has nothing else for it; else None, and then
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

    def take(self, delay: Callable[[int], int] | None = None) -> int | None:
        """The number of the launch that has drawn None; None if it is bare after all: another thread was
        quicker, and its launch has taken this turn, or `delay` puts it off.

        delay: asked with its number for how many launches, this one included, cannot be recorded yet.
        """
        with self._lock:
            if next(self._left, None) is not None:
                return None
            number = self._begun
            put_off = 0 if delay is None else delay(number)
            if put_off:
                self._plan(put_off + self._policy.bare_from(number + put_off))
                next(self._left)
                return None
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
            self.draw = repeat(BARE, FOREVER).__next__

    def resume(self) -> None:
        """Go on with the number after the last one."""
        with self._lock:
            self._begin(self._begun)
