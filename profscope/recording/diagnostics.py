"""Launches that ran without being recorded, and why: most notes of a session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from profscope.instrument_passes.errors import ProfscopeError

__all__ = ["Diagnostics", "number_of_launches", "one_line", "reason"]


def number_of_launches(count: int) -> str:
    """So many launches, in words."""
    return f"{count} launch" if count == 1 else f"{count} launches"


class Diagnostics:
    """Thread-safe.

    unrecorded: why launches ran without being recorded -> how many.
    stopped: why nothing is recorded any more, "" while recording goes on.
    """

    def __init__(self) -> None:
        self.unrecorded: Counter[str] = Counter()
        self.stopped = ""
        self._when_stopped: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def skip(self, why: str, launches: int = 1) -> None:
        """So many launches ran and were not recorded."""
        with self._lock:
            self.unrecorded[why] += launches

    def stop(self, why: str) -> None:
        """Nothing is recorded any more; the first reason stands."""
        self.stopped = self.stopped or why
        for call in self._when_stopped:
            call()

    def when_stopped(self, call: Callable[[], None]) -> None:
        """Call it once nothing is to be recorded any more."""
        self._when_stopped.append(call)

    def notes(self) -> list[str]:
        """One line for each reason so far."""
        return [
            f"{number_of_launches(count)} ran unrecorded: {why}" for why, count in self.unrecorded.items()
        ]

    def after_fork(self) -> None:
        """In a child process: the lock may be held by a thread that is gone."""
        self._lock = threading.Lock()


def one_line(error: BaseException, most_characters: int = 300) -> str:
    """Type and text of an error, as one line: "ValueError: no such kernel"."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:most_characters]}"


def reason(error: Exception) -> str:
    """Why a kernel could not be built, as one line; errors that are not profscope's own say their type."""
    return " ".join(str(error).split()) if isinstance(error, ProfscopeError) else one_line(error)
