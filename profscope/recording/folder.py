"""Folds a session's launches that kept sums as they drain, in the background, and lets go of their memory."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Final

from profscope.decoding.folding import Folded
from profscope.recording.arrivals import Arrivals
from profscope.recording.folding_process import FOLDING_THREADS
from profscope.recording.host_memory import HeldRecords
from profscope.recording.launch_log import LaunchLog
from profscope.threads import WorkerPool

__all__ = ["Folder", "is_behind"]

_AHEAD: Final = 1  # arenas that may wait to be folded: so much memory is held at most


def is_behind(waiting: deque[Future[None]], ahead: int) -> bool:
    """Whether so many pieces of work are not done yet."""
    return len(waiting) >= ahead and sum(not each.done() for each in list(waiting)) >= ahead


class Folder:
    """folded: what folds, and what has been so far. notes: on launches that were lost or wrote nothing.
    Thread-safe."""

    def __init__(self, log: LaunchLog, arrivals: Arrivals, held: HeldRecords, folded: Folded) -> None:
        self.folded = folded
        self.notes: list[str] = []
        self._log = log
        self._arrivals = arrivals
        self._held = held
        self._lock = threading.Lock()
        self._thread = WorkerPool(1, "profscope-folder")
        self._workers = WorkerPool(FOLDING_THREADS, "profscope-fold")
        self._waiting: deque[Future[None]] = deque()

    def full(self, drained_bytes: int) -> None:
        """An arena with so many bytes is on its way to the host: fold it in the background.

        Waits where folding is behind by several arenas.
        """
        self._held.add(drained_bytes)
        self._waiting.append(self._thread.submit(self.fold))
        while len(self._waiting) > _AHEAD:
            self._waiting.popleft().result()

    def behind(self) -> bool:
        """Whether as many arenas wait to be folded as may."""
        return is_behind(self._waiting, _AHEAD)

    def fold(self) -> None:
        """Fold what has drained before returning."""
        with self._lock:
            launches, notes = self._arrivals.take_sums()
            self.notes += notes
            self.folded.add(launches, self._workers)
            del launches  # and with it what it holds on the host
            self._held.set(self._log.part())

    def close(self) -> None:
        """Fold what has drained and end the threads."""
        self._thread.shutdown()
        self.fold()
        self._workers.shutdown()
        self.folded.close()
