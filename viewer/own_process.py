"""What a command changes of its process, which it has to itself: it reads, prints and ends."""

from __future__ import annotations

import gc
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Final

from profscope.threads import daemon

__all__ = ["imported_beside", "imports_that_stay", "keep_freed_memory", "temporary_folder"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_KEPT_BYTES: Final = (1 << 31) - 1  # all that mallopt(3) can say
_TOGETHER_BYTES: Final = 1 << 25
"""The most that glibc lets it be (DEFAULT_MMAP_THRESHOLD_MAX): larger arrays go back all the same."""


def keep_freed_memory() -> None:
    """Have the process keep what it frees, for what it asks for next.

    Numpy makes and frees an array with each step. glibc hands many of them back to the system, which clears
    what it gives anew: of ten million spans, a fifth of what a first screen took. And it has an arena for
    each thread: what one thread has freed another would not get. Where there is no glibc nothing changes.
    """
    import ctypes  # as numpy has by then, and --help has not

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _TOGETHER_BYTES)
        mallopt(_ARENA_MAX, 1)


@contextmanager
def imported_beside(work: Callable[[], object]) -> Iterator[None]:
    """Import what is needed next in a thread, while the body reads a file: decoders let other threads run.

    work: what imports it; what it raises is left to who imports it again. Ctrl-C waits for nothing: it may
    leave Python's lock on imports taken, and then the thread waits for ever.
    """

    def prepare() -> None:
        with suppress(Exception):
            work()

    beside = daemon("import", prepare)
    try:
        yield
    except Exception:
        if beside is not None:
            beside.join()
        raise
    if beside is not None:
        beside.join()


@contextmanager
def imports_that_stay(module: str) -> Iterator[None]:
    """Around the import of a module: the garbage collector never looks through what they made.

    There are 60,000 of them. To walk through them again and again, and once more at
    the end, was an eighth of a view of one launch. What the first such imports of a process make is left out.
    """
    if module in sys.modules or not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder that goes with the body, also where SIGTERM or SIGHUP ends the process in it."""
    before = _raise_at_signals() if current_thread() is main_thread() else {}
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_at_signals() -> dict[int, signal.Handlers]:
    """Have signals that end the process end it through its `finally`; returns what they did before."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.SIG_DFL for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, _end)
    return before


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # as a shell says it
