"""A progress line on stderr, if that is a terminal, for work of more than a second.

    with working("loading trace.json"):
        ...

    profscope: loading trace.json, 3 s

The line goes when the work is done. In a pipe, a file or a notebook nothing is written.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TextIO

from profscope.threads import daemon

__all__ = ["AFTER_S", "EVERY_S", "Steps", "working"]

AFTER_S: Final = 1.0
EVERY_S: Final = 0.2
_CLEAR: Final = "\r\x1b[K"
_LEAST_WIDTH: Final = 20

_INSIDE: Final = ContextVar("_INSIDE", default=False)
"""Whether work around this one is shown already."""


@dataclass
class Steps:
    """How much is done of some work, which whoever does it counts up."""

    done: int = 0


@contextmanager
def working(what: str, total: int = 0, steps: Steps | None = None) -> Iterator[None]:
    """Show the progress of the body. total: number of steps, 0 if unknown.

    Work inside of work that is shown is not shown itself.
    """
    stream = sys.stderr
    if _INSIDE.get() or not _is_terminal(stream):
        yield
        return
    ended = threading.Event()
    inside = _INSIDE.set(True)
    thread = daemon("progress", _show, stream, what, total, steps, ended)
    try:
        yield
    finally:
        _INSIDE.reset(inside)
        ended.set()
        if thread is not None:
            thread.join()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except ValueError:  # it has been closed
        return False


def _show(stream: TextIO, what: str, total: int, steps: Steps | None, ended: threading.Event) -> None:
    begun = time.monotonic()
    if ended.wait(AFTER_S):
        return
    try:
        while not ended.wait(EVERY_S):
            part = f", {min(100 * steps.done // total, 100)} %" if steps is not None and total else ""
            seconds = f"{part}, {time.monotonic() - begun:.0f} s"
            stream.write(f"{_CLEAR}{_line(what, seconds)}")
            stream.flush()
        stream.write(_CLEAR)
        stream.flush()
    except (OSError, ValueError):  # the terminal has gone; the work goes on
        return


def _line(what: str, seconds: str) -> str:
    """One line of the terminal: what is too long would leave a part of itself behind."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        width = 80
    plain = "".join(char if char.isprintable() else "?" for char in f"profscope: {what}")
    room = max(width - len(seconds) - 1, _LEAST_WIDTH)
    return (plain if len(plain) <= room else plain[: room - 1] + "…") + seconds
