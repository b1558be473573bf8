"""Writes what a session has recorded every now and then, so that it outlives the program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from profscope.errors import ProfscopeError

__all__ = ["Flushing"]

_FIRST_S: Final = 1.0
_LONGER: Final = 1.2  # each pause than the one before,
_LONGEST_S: Final = 10.0  # up to that
_SHARE: Final = 0.01  # of the time that goes into it at most


class Flushing:
    """A thread. session: a RunSession; failed: told why, once nothing can be written any more."""

    def __init__(self, session: Any, failed: Callable[[str], None]) -> None:
        self._session = session
        self._failed = failed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._flush, name="profscope-flush", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits for what is being written."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _flush(self) -> None:
        from profscope.device.cuda_driver import allow_capture

        allow_capture()
        pause_s = _FIRST_S
        while not self._stopped.wait(pause_s):
            begin_s = time.perf_counter()
            try:
                self._session.flush_news()
            except ProfscopeError as error:
                self._failed(str(error))
                return
            took_s = time.perf_counter() - begin_s
            pause_s = max(took_s / _SHARE, min(_LONGEST_S, pause_s * _LONGER))
