"""The trace that the command line names: a file, a folder, or what comes through a pipe."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import IO, Final

from profscope.errors import TraceError
from profscope.profiles import Profile, load
from profscope.store.free_memory import free_bytes
from profscope.threads import daemon
from profscope.traces.loading import load_part
from profscope.traces.selecting import selected
from profscope.traces.trace_file import may_be_trace
from profscope.traces.trace_filter import TraceFilter

__all__ = ["Trace", "imported_beside", "part_of", "read", "temporary_folder"]

_PIECE_BYTES = 1 << 20
_SIGNALS_EVERY_S = 0.2


@dataclass(frozen=True)
class Trace:
    """A profile; the name to show for where it came from; when it was written, in seconds since the epoch,
    0 if that is not known; how many spans it has, of which the profile may have less."""

    profile: Profile
    name: str
    written_s: float
    spans: int


def read(argument: str, *, verify: bool = True, only: TraceFilter | None = None) -> Trace:
    """The trace at a path; "-" is standard input. verify: as for `load`; only: as for `load_part`.

    Raises TraceError, naming what the command line names, when there is none that can be read.
    """
    keep_freed_memory()
    path = Path(argument)
    if argument == "-":
        if sys.stdin is None:
            raise TraceError("standard input is closed")
        return _through_pipe(sys.stdin.buffer, "standard input", verify)
    if _is_stream(path):
        try:
            with path.open("rb") as stream:
                return _through_pipe(stream, argument, verify)
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    part = load_part(argument, only or TraceFilter(), verify=verify)
    profile = Profile.of(part.tables)
    spans = len(part.tables.df) + part.left_out
    return Trace(profile, path.name or argument, path.stat().st_mtime, spans)


def part_of(profile: Profile, selection: TraceFilter) -> Profile:
    """The profile of what is asked for alone, see `selected`; the same one where that is everything."""
    return profile if selection.is_all else Profile.of(selected(profile.tables, selection))


def _is_stream(path: Path) -> bool:
    """Whether a path can be read only once, as that of `<(zcat trace.json.gz)`."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # which `load` will name
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _through_pipe(stream: IO[bytes], name: str, verify: bool) -> Trace:
    """Read a trace from a copy: readers look at a file's start more than once."""
    with temporary_folder("profscope-view-") as folder:
        copy = folder / "trace"
        try:
            status = os.fstat(stream.fileno())
            _copy(stream, copy, name)
        except OSError as error:
            raise TraceError(f"{name} cannot be read: {error.strerror}") from error
        try:
            profile = load(copy, verify=verify)
        except TraceError as error:
            raise TraceError(str(error).replace(str(copy), name)) from error
    return Trace(
        profile, name, status.st_mtime if stat.S_ISREG(status.st_mode) else 0.0, len(profile.tables.df)
    )


def _copy(stream: IO[bytes], copy: Path, name: str) -> None:
    """Copy a stream to a file; of one that begins as no trace does the start, so that `load` says what it is.

    Raises TraceError for one that is longer than what could be loaded.
    """
    most = most_bytes(copy.parent)
    with copy.open("wb") as file:
        for piece in iter(lambda: _piece(stream.fileno()), b""):
            is_start = file.tell() == 0
            file.write(piece)
            if is_start and not may_be_trace(piece):
                return
            if file.tell() > most:
                raise TraceError(
                    f"{name} is longer than {most / 1e9:,.1f} GB, which is all that memory or the temporary "
                    "folder has room for; save it as a file and view that"
                )


def _piece(descriptor: int) -> bytes:
    """The next bytes of a stream; b"" at its end. Python handles a signal that comes right before a system
    call only after that call: a read that waits for ever would hold it up."""
    parts = bytearray()
    while len(parts) < _PIECE_BYTES:
        if sys.platform != "win32" and not select.select([descriptor], [], [], _SIGNALS_EVERY_S)[0]:
            continue
        part = os.read(descriptor, _PIECE_BYTES - len(parts))
        if not part:
            break
        parts += part
    return bytes(parts)


def most_bytes(folder: Path) -> int:
    """How long a copy in a folder may be: at most half of the room there, and no more than fits in memory."""
    free, on_disk = free_bytes(), shutil.disk_usage(folder).free // 2
    return on_disk if free is None else min(free, on_disk)


# What a command changes of its process, which it has to itself: it reads, prints and ends.

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
