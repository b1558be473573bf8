"""The trace that the command line names, and settings of the process for reading it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from profscope.profiles import Profile
from profscope.threads import daemon
from profscope.traces.loading import load_part
from profscope.traces.selecting import selected
from profscope.traces.trace_file import TraceFile
from profscope.traces.trace_filter import TraceFilter

__all__ = ["Trace", "imported_beside", "part_of", "read"]


@dataclass(frozen=True)
class Trace:
    """A profile; the name to show for its source; its time of writing, in seconds since the epoch; its number
    of spans, of which the profile may have only a part."""

    profile: Profile
    name: str
    written_s: float
    spans: int


def read(trace: str | TraceFile, only: TraceFilter | None = None) -> Trace:
    """The trace at a path, or in a file. only: as for `load_part`. Raises TraceError."""
    keep_freed_memory()
    file = trace if isinstance(trace, TraceFile) else TraceFile(trace)
    part = load_part(file, only or TraceFilter())
    spans = len(part.tables.df) + part.left_out
    return Trace(Profile.of(part.tables), file.path.name or str(file.path), file.path.stat().st_mtime, spans)


def part_of(profile: Profile, selection: TraceFilter) -> Profile:
    """The selected part of the profile (see `selected`); the same profile if that is everything."""
    return profile if selection.is_all else Profile.of(selected(profile.tables, selection))


# What a command changes of its process, which it has to itself: it reads, prints and ends.

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_KEPT_BYTES: Final = (1 << 31) - 1  # all that mallopt(3) can say
_TOGETHER_BYTES: Final = 1 << 25
"""The most that glibc lets it be (DEFAULT_MMAP_THRESHOLD_MAX): larger arrays go back all the same."""


def keep_freed_memory() -> None:
    """Have the process keep freed memory for its next allocations.

    Numpy makes and frees an array with each step. glibc hands many of them back to the system, which clears
    new memory: a fifth of the time of a first screen of ten million spans. It also has an arena for each
    thread, so that threads do not share freed memory. Without glibc nothing changes.
    """
    import ctypes  # as numpy has by then, and --help has not

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _TOGETHER_BYTES)
        mallopt(_ARENA_MAX, 1)


@contextmanager
def imported_beside(work: Callable[[], object]) -> Iterator[None]:
    """Import modules in a thread, while the body reads a file: decoders let other threads run.

    work: imports them; its errors are raised by the next import. Ctrl-C waits for nothing: it may leave
    Python's lock on imports taken, and then the thread waits for ever.
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
