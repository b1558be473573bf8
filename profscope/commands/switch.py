"""Switches the recording of a running program on and off from outside: by a signal, or by a file.

kill -USR1 PID         on, and off with the next one
touch FILE; rm FILE    on while there is a file
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from profscope.errors import OptionError
from profscope.threads import daemon

__all__ = ["Switch", "signal_of"]

_LOOK_EVERY_S: Final = 0.25
_LONGEST_TURN_S: Final = 10.0


class Switch:
    """how: the name of a signal, such as SIGUSR1, or a file's path. turn: told True for on, False for off, in
    a thread of its own: what a signal interrupts may hold any lock."""

    def __init__(self, how: str, turn: Callable[[bool], None]) -> None:
        self._how = how
        self._file = Path(how).absolute()  # the program may go to another folder
        self._turn = turn
        self._signals: SimpleQueue[None] = SimpleQueue()  # a signal may interrupt another one's put()
        self._turning = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """From the main thread. It is off, unless the file is there."""
        number = signal_of(self._how)
        if number is not None:
            signal.signal(number, lambda *_: self._signals.put(None))
        turns = self._by_file() if number is None else self._by_signal()
        daemon("switch", self._watch, turns)

    def stop(self) -> None:
        """Turn no more; waits for a turn that is under way, but not for ever."""
        self._stopped = True
        if self._turning.acquire(timeout=_LONGEST_TURN_S):
            self._turning.release()

    def _watch(self, turns: Iterator[bool]) -> None:
        for on in turns:
            with self._turning:
                if self._stopped:
                    return
                self._turn(on)

    def _by_signal(self) -> Iterator[bool]:
        on = False
        while True:
            self._signals.get()
            on = not on
            yield on

    def _by_file(self) -> Iterator[bool]:
        file, on = self._file, False
        while True:
            if file.exists() != on:
                on = not on
                yield on
            time.sleep(_LOOK_EVERY_S)


def signal_of(how: str) -> signal.Signals | None:
    """The signal that a switch names; None where it names a file. Raises OptionError if it can be neither."""
    if not how or Path(how).is_dir():
        what = f"{how!r} is a folder" if how else "it is empty"
        raise OptionError(f"--switch: {what}; name a signal, such as SIGUSR1, or a file")
    if not how.startswith("SIG"):
        return None
    number = signal.Signals.__members__.get(how)
    if number is None or number in (signal.SIGKILL, signal.SIGSTOP):
        raise OptionError(
            f"--switch {how}: a program cannot handle this signal; use SIGUSR1, SIGUSR2 or a file"
        )
    return number
