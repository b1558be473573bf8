"""The launching threads, and what each has been given memory for and has not launched yet."""

from __future__ import annotations

import threading
import weakref

from profscope.decoding.raw import ORDINARY
from profscope.recording.buffers import Lane
from profscope.recording.journal import Journal
from profscope.recording.launch_log import LaunchLog
from profscope.recording.programs import PROGRAMS

__all__ = ["Lanes", "LaunchingThread"]


class LaunchingThread(threading.local):
    """What is known of the thread that asks; made when it launches first.

    lane: its lane. listening: what it launches is recorded even where only some launches are.
    """

    def __init__(self, threads: list[tuple[weakref.ref[threading.Thread], Lane]]) -> None:
        self.reset()
        threads.append((weakref.ref(threading.current_thread()), self.lane))

    def reset(self) -> None:
        """The thread launches nothing."""
        self.listening = False
        self.lane = Lane()
        self.lane.mark = ORDINARY


class Lanes:
    """thread: the calling thread's, as an attribute, for the launch path."""

    def __init__(self, log: LaunchLog, journal: Journal) -> None:
        self._threads: list[tuple[weakref.ref[threading.Thread], Lane]] = []  # those that have launched
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
        for thread, lane in self._threads:
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
        threads = [thread() for thread, _ in self._threads]
        return any(thread is not own and _is_alive(thread) for thread in threads)

    def after_fork(self) -> None:
        """In a child process: the other threads are gone."""
        self._threads.clear()
        self.thread.reset()


def _is_alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()
