"""The trace that the command line names: a file, a folder, or what comes through a pipe."""

import os
import select
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from profscope.errors import TraceError
from profscope.profiles import Profile, load
from profscope.store.free_memory import free_bytes
from profscope.traces.loading import load_part
from profscope.traces.selecting import selected
from profscope.traces.trace_file import may_be_trace
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.own_process import keep_freed_memory, temporary_folder
from profscope.viewer.units import printable

__all__ = ["Trace", "part_of", "read"]

_PIECE_BYTES = 1 << 20
_SIGNALS_EVERY_S = 0.2
_SILENT_S = 1.0


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
        with _opened(path) as stream:
            return _through_pipe(stream, argument, verify)
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


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits here for a FIFO's writer
        os.set_blocking(descriptor, True)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_ISFIFO(path.lstat().st_mode) and not select.select([stream], [], [], _SILENT_S)[0]:
            _say(f"profscope: waiting for something to be written to {printable(str(path))}")
        yield stream


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


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
    """The next bytes of a stream; b"" at its end."""
    parts = bytearray()
    while len(parts) < _PIECE_BYTES:
        _wait_for(descriptor)
        part = os.read(descriptor, _PIECE_BYTES - len(parts))
        if not part:
            break
        parts += part
    return bytes(parts)


def _wait_for(descriptor: int) -> None:
    """Until there is something to read. Python handles a signal that comes right before a system call only
    after that call: a read that waits for ever would hold it up."""
    while sys.platform != "win32" and not select.select([descriptor], [], [], _SIGNALS_EVERY_S)[0]:
        pass


def most_bytes(folder: Path) -> int:
    """How long a copy in a folder may be: at most half of the room there, and no more than fits in memory."""
    free, on_disk = free_bytes(), shutil.disk_usage(folder).free // 2
    return on_disk if free is None else min(free, on_disk)
