"""Ctrl-C, kept from the middle of what must be done whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["uninterrupted"]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C in the body of the with statement raises at its end; pressed twice, it raises at once.

    Python raises KeyboardInterrupt in the main thread alone, so other threads have nothing to wait with.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # ignored, deadly, or handled by a library in C: nothing raises
        return
    waiting = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        waiting = not waiting
        if not waiting:
            handler(number, frame)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, None)
