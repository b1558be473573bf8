"""The launching threads, and what each has been given memory for and has not launched yet."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

from profscope.decoding.raw import ORDINARY
from profscope.recording.buffers import Lane
from profscope.recording.journal import Journal
from profscope.recording.launch_log import LaunchLog
from profscope.recording.programs import PROGRAMS

__all__ = ["Lanes", "LaunchingThread"]


class _Thread(NamedTuple):
    """number: the system's; of_python: it was begun by Python, and not by a library, as autograd's are."""

    thread: weakref.ref[threading.Thread]
    lane: Lane
    number: int
    of_python: bool


class LaunchingThread(threading.local):
    """What is known of the thread that asks; made when it launches first.

    lane: its lane. listening: what it launches is recorded even where only some launches are.
    """

    def __init__(self, threads: list[_Thread]) -> None:
        self.reset()
        own = threading.current_thread()
        of_python = not isinstance(own, threading._DummyThread)
        threads.append(_Thread(weakref.ref(own), self.lane, threading.get_native_id(), of_python))

    def reset(self) -> None:
        """The thread launches nothing."""
        self.listening = False
        self.lane = Lane()
        self.lane.mark = ORDINARY


class Lanes:
    """thread: the calling thread's, as an attribute, for the launch path."""

    def __init__(self, log: LaunchLog, journal: Journal) -> None:
        self._threads: list[_Thread] = []  # the one that makes this, and those that have launched
        self.thread = LaunchingThread(self._threads)
        self._log = log
        self._journal = journal

    def give_up(self) -> None:
        """Wait no longer for the hook of the launch that this thread was given memory for: it has failed, or
        another hook of its launches a kernel, or asks for the records so far."""
        self._give_up(self.thread.lane)

    def give_up_ended(self) -> None:
        """As give_up, also for threads that are gone: a thread whose launch ran before another thread's hook
        had told of the binary that both loaded was never tied to it."""
        for thread, lane, _, _ in self._threads:
            if lane is self.thread.lane or not _is_alive(thread()):
                self._give_up(lane)

    def _give_up(self, lane: Lane) -> None:
        filling, route = lane.filling, lane.about
        if filling is None and lane.captured is None:
            return
        if filling is not None and len(route.programs) == 1:
            self._log.entries.append(
                (PROGRAMS.with_manifest(route.programs[0]), route, filling, lane.offset, lane.mark)
            )
        else:
            self._journal.miss()
        lane.captured = None
        lane.enqueued()

    def others_alive(self) -> bool:
        """Whether another thread that has launched may launch again."""
        own = threading.current_thread()
        threads = [each.thread() for each in self._threads]
        return any(thread is not own and _is_alive(thread) for thread in threads)

    def scopes_of(self) -> frozenset[int]:
        """The numbers of the threads whose scopes launches may be in; none where it may be any.

        These are Python's that have launched, and the one that made this, which may wait for others. What
        autograd's threads launch belongs to a thread that waits for them, and mostly launches, too; it may be
        any where no thread of Python's has.
        """
        launched = {each.number for each in self._threads if each.of_python and each.lane.about is not None}
        foreign = any(not each.of_python and each.lane.about is not None for each in self._threads)
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


def _is_alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()
