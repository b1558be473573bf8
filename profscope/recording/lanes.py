"""The launching threads, and what each has been given memory for and has not launched yet."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

from profscope.device.buffers import Lane

__all__ = ["Lanes", "LaunchingThread"]


class _Thread(NamedTuple):
    """number: the system's; of_python: it was begun by Python, and not by a library, as autograd's are."""

    thread: weakref.ref[threading.Thread]
    lane: Lane
    number: int
    of_python: bool


class LaunchingThread(threading.local):
    """What is known of the thread that asks; made when it launches first. lane: its lane."""

    def __init__(self, threads: list[_Thread]) -> None:
        self.reset()
        own = threading.current_thread()
        of_python = not isinstance(own, threading._DummyThread)
        threads.append(_Thread(weakref.ref(own), self.lane, threading.get_native_id(), of_python))

    def reset(self) -> None:
        """The thread launches nothing."""
        self.lane = Lane()


class Lanes:
    """thread: the calling thread's, as an attribute, for launches."""

    def __init__(self) -> None:
        self._threads: list[_Thread] = []  # the one that makes this, and those that have launched
        self.thread = LaunchingThread(self._threads)

    def scopes_of(self) -> frozenset[int]:
        """The numbers of the threads whose scopes launches may be in; none where it may be any.

        These are Python's that have launched, and the one that made this, which may wait for others. What
        autograd's threads launch belongs to a thread that waits for them, and mostly launches, too; it may be
        any where no thread of Python's has.
        """
        launched = {each.number for each in self._threads if each.of_python and each.lane.launches}
        foreign = any(not each.of_python and each.lane.launches for each in self._threads)
        if foreign and not launched:
            return frozenset()
        return frozenset(launched | {self._threads[0].number}) if self._threads else frozenset()

    def launched(self) -> dict[int, tuple[int, bool]]:
        """By the number of each of Python's threads that has launched, how many launches were given memory,
        and whether the last of them may not be in the log yet."""
        return {
            each.number: (each.lane.launches, each.lane.filling is not None)
            for each in self._threads[:]
            if each.of_python and each.lane.launches
        }

    def alone(self, number: int) -> bool:
        """Whether no other thread has launched yet, or opened the session."""
        return len(self._threads) == 1 and self._threads[0].number == number

    def after_fork(self) -> None:
        """In a child process: the other threads are gone."""
        self._threads.clear()
        self.thread.reset()
