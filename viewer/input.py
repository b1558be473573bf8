"""The trace that the command line names: a file, a folder, or what comes through a pipe."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from profscope.errors import TraceError
from profscope.profiles import Profile, load
from profscope.traces.loading import load_part
from profscope.traces.only import Only
from viewer.own_process import keep_freed_memory

__all__ = ["Trace", "read"]


@dataclass(frozen=True)
class Trace:
    """A profile; the name to show for where it came from; when it was written, in seconds since the epoch,
    0 if that is not known; how many spans it has, of which the profile may have less."""

    profile: Profile
    name: str
    written_s: float
    spans: int


def read(argument: str, *, verify: bool = True, only: Only | None = None) -> Trace:
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
    part = load_part(path, only or Only(), verify=verify)
    profile = Profile.of(part.tables)
    spans = len(part.tables.df) + part.left_out
    return Trace(profile, path.name or argument, path.stat().st_mtime, spans)


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
        stream = path.open("rb")
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    with stream:
        yield stream


def _through_pipe(stream: IO[bytes], name: str, verify: bool) -> Trace:
    """Read a trace from a copy: readers look at a file's start more than once."""
    with tempfile.TemporaryDirectory(prefix="profscope-view-") as folder:
        copy = Path(folder) / "trace"
        try:
            status = os.fstat(stream.fileno())
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        except OSError as error:
            raise TraceError(f"{name} cannot be read: {error.strerror}") from error
        try:
            profile = load(copy, verify=verify)
        except TraceError as error:
            raise TraceError(str(error).replace(str(copy), name)) from error
    return Trace(
        profile, name, status.st_mtime if stat.S_ISREG(status.st_mode) else 0.0, len(profile.tables.df)
    )
