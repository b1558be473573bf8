"""Whose turn it is to be recorded, where one launch of a function in so many is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any

__all__ = ["Turns"]


class Turns:
    """The launches of one function, numbered over all threads: the first one is due, then one in `every`.

    draw(): a launch begins. Returns `left_out` if it is, else `due`; then `take` says whether the turn is
    this thread's. Drawing is one step of an iterator of C's: most launches pay for neither lock nor number.
    """

    __slots__ = ("_due", "_every", "_left", "_lock", "_rounds", "draw", "left_out")

    def __init__(self, every: int, left_out: Any, due: Any = None) -> None:
        self.left_out = left_out
        self._due = due
        self._every = every
        self._lock = threading.Lock()
        self._rounds = 0
        self._begin(0)

    def _begin(self, launches: int) -> None:
        self._left = repeat(self.left_out, launches)
        self.draw: Callable[[], Any] = partial(next, self._left, self._due)

    def take(self) -> bool:
        """Whether the launch for which `due` was drawn is the one: another thread may have been quicker."""
        with self._lock:
            if next(self._left, None) is not None:
                return False
            self._rounds += 1
            self._begin(self._every - 1)
            return True

    @property
    def launches(self) -> int:
        """How many have begun."""
        with self._lock:
            return self._rounds * self._every - length_hint(self._left)
