"""Which scopes of the host's code are open, in each thread and in each context, such as an asyncio task.

A scope belongs to the context that entered it (see `contextvars`), and to the contexts made from that.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["HERE", "HOST_THREADS", "INNERMOST", "Entered", "HostThread", "standing"]


class Entered:
    """A scope that was entered. above: the one around it in its context; scope: the object that was entered,
    None for a range of other tools; row: the last that it was recorded as; nested: whether others lie in it.
    """

    __slots__ = ("above", "left", "nested", "row", "scope", "thread")

    def __init__(self, scope: Any, *, nested: bool = True) -> None:
        self.above = standing(INNERMOST.get())
        self.left = False
        self.nested = nested
        self.row: Any = None
        self.scope = scope
        self.thread = HERE.thread

    def enter(self) -> None:
        self.thread.open.append(self)
        self.thread.in_force = self
        INNERMOST.set(self)

    def leave(self) -> None:
        if self.left:
            return
        self.left = True
        if self in self.thread.open:
            self.thread.open.remove(self)
        self.thread.in_force = standing(self.thread.in_force)
        INNERMOST.set(standing(INNERMOST.get()))


class HostThread:
    """open: its scopes, the last entered last; also where nothing records. in_force: the innermost one in the
    context that last entered or left a scope, or launched."""

    __slots__ = ("in_force", "open")

    def __init__(self) -> None:
        self.open: list[Entered] = []
        self.in_force: Entered | None = None


class _Here(threading.local):
    """thread: the calling one."""

    def __init__(self) -> None:
        self.thread = HOST_THREADS[threading.get_ident()] = HostThread()


HOST_THREADS: Final[dict[int, HostThread]] = {}  # those that have entered a scope, or launched
INNERMOST: Final[ContextVar[Entered | None]] = ContextVar("INNERMOST", default=None)
HERE: Final = _Here()


def standing(entered: Entered | None) -> Entered | None:
    """It, or the innermost around it that has not been left."""
    while entered is not None and entered.left:
        entered = entered.above
    return entered
