"""What records in a running session, built and installed in one place."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from profscope.decoding.raw import RawLaunch
from profscope.device.backend import Backend
from profscope.device.buffers import Full
from profscope.device.graphs import Graphs
from profscope.errors import SessionError
from profscope.options import Options
from profscope.recording.diagnostics import Diagnostics
from profscope.recording.drained_launches import DrainedLaunches
from profscope.recording.host_memory import HeldRecords
from profscope.recording.lanes import Lanes
from profscope.recording.launch_log import LaunchLog
from profscope.recording.recorded_launches import RecordedLaunches, Replays
from profscope.recording.routes import Routes
from profscope.store.spool import Spooler

__all__ = ["Recorder", "recorder"]


@dataclass(frozen=True, eq=False)
class Recorder:
    """Records the launches of a session. spooler: None without `spool=`. pid: of the session's process."""

    backend: Backend
    journal: Diagnostics
    log: LaunchLog
    lanes: Lanes
    routes: Routes
    launches: RecordedLaunches
    arrivals: DrainedLaunches
    spooler: Spooler | None
    graphs: Graphs | None
    pid: int

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a process that was forked from the session's."""
        return os.getpid() != self.pid

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Record what is launched in the body of a with statement; again and again, one after the other."""
        with contextlib.nullcontext() if self.graphs is None else self.graphs.installed():
            yield

    def recorded(self) -> Counter[str]:
        """By kernel, ordinary launches that were recorded, or captured to be recorded at their replays."""
        return self.log.ordinary() + self.arrivals.taken + self.launches.captured

    def notes(self) -> list[str]:
        """What ran bare or unrecorded so far, and what the backend could not do faithfully, one line each."""
        notes = self.journal.notes()
        if self.graphs is not None and self.graphs.strangers:
            notes.append(
                f"{self.graphs.strangers} replays of CUDA graphs ran unrecorded: they were captured outside "
                "the session"
            )
        return notes + self.backend.notes()

    def preparation(self) -> Callable[[], object]:
        """What has memory ready on this thread's current device before a launch asks for it: to allocate it,
        and to compare the clocks of device and host, takes tens of milliseconds once. Any thread may call it.
        """
        return partial(self.routes.buffers, self.launches.device())

    def drain(self) -> None:
        """Bring the launches so far to the host; waits for them."""
        self.arrivals.drain()

    def fetch(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches so far with their bytes on the host, and notes on those lost."""
        return self.arrivals.fetch() if self.spooler is None else self.spooler.read()

    def close(self) -> None:
        """Fetch everything and give the device memory back; in a forked process, nothing."""
        if self.forked:
            return
        self.journal.stop("the session had ended")
        with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            self.routes.close()


def recorder(options: Options, backend: Backend, metadata: dict[str, Any]) -> Recorder:
    """What a session with these options records with. metadata: of the session, for its spool.

    Raises SessionError if the spool cannot be created.
    """
    journal, log, lanes = Diagnostics(), LaunchLog(), Lanes()
    arrivals = DrainedLaunches(log, sources=options.sources)
    cuda = backend.device_type == "cuda"
    spooler = None if options.spool is None else _spooler(Path(options.spool), metadata, arrivals)
    full: Full = HeldRecords(journal).add if spooler is None else _spooling(spooler, journal)
    routes = Routes(options, backend, log, journal, full)
    # A graph's memory comes in pieces of an eighth of what sessions may take, beside that.
    keep = Replays(lanes, log, routes, journal).keep
    graphs = Graphs(options.memory << 17, options.every, routes.settle, keep) if cuda else None
    launches = RecordedLaunches(lanes, log, routes, graphs, journal, cuda=cuda)
    made = Recorder(backend, journal, log, lanes, routes, launches, arrivals, spooler, graphs, os.getpid())
    this = weakref.ref(made)
    os.register_at_fork(after_in_child=lambda: _forked(this()))
    return made


def _spooler(folder: Path, metadata: dict[str, Any], arrivals: DrainedLaunches) -> Spooler:
    try:
        return Spooler(folder, metadata, arrivals.take)
    except OSError as error:
        raise SessionError(f"spool={str(folder)!r} cannot be written to: {error}") from error


def _spooling(spooler: Spooler, journal: Diagnostics) -> Full:
    def full(drained_bytes: int) -> None:
        spooler.full()
        if spooler.error:
            journal.stop(spooler.error)

    return full


def _forked(recording: Recorder | None) -> None:
    """In a child process nothing is recorded."""
    if recording is not None:
        for part in (recording.journal, recording.lanes, recording.routes, recording.launches):
            part.after_fork()
        recording.journal.stop("this process was forked from the session's")
