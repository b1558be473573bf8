"""The recorder of a running session, built and installed in one place."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from profscope.decoding.areas import has_records
from profscope.decoding.build import Build, RawLaunch
from profscope.device.backend import Backend
from profscope.device.buffers import Full
from profscope.device.cuda_driver import allow_capture
from profscope.device.graphs import Graphs
from profscope.errors import SessionError
from profscope.options import Options
from profscope.recording.diagnostics import Diagnostics
from profscope.recording.launch_log import LaunchLog, fetched
from profscope.recording.recorded_launches import RecordedLaunches
from profscope.recording.routes import Routes
from profscope.store.free_memory import free_bytes
from profscope.store.spool import Spooler
from profscope.threads import in_background

__all__ = ["HeldRecords", "Recorder"]


class Recorder:
    """Records the launches of a session. spooler: None without `spool=`; graphs: None without a GPU.

    taken: kernel -> its ordinary launches that were taken out of the log. metadata: of the session, for its
    spool. Raises SessionError if the spool cannot be created.
    """

    def __init__(self, options: Options, backend: Backend, metadata: dict[str, Any]) -> None:
        cuda = backend.device_type == "cuda"
        self.backend = backend
        self.diagnostics = Diagnostics()
        self.log = LaunchLog()
        self.taken: Counter[str] = Counter()
        self.spooler = None if options.spool is None else self._spooler(Path(options.spool), metadata)
        full: Full = HeldRecords(self.diagnostics).add if self.spooler is None else self._full
        self.routes = Routes(options, backend, self.log, self.diagnostics, full)
        self.launches = RecordedLaunches(self.log, self.routes, self.diagnostics, cuda=cuda)
        if cuda:  # a graph's memory comes in pieces of an eighth of what sessions may take, beside that
            keep, settle = self.launches.keep, self.routes.settle
            self.launches.graphs = Graphs(options.memory << 17, options.every, settle, keep)
        self._sources = options.sources
        self._written = False  # whether any launch that was taken had written records
        self._textless: dict[int, tuple[Build, Build]] = {}  # by what they are of, which is kept alive
        self._pid = os.getpid()
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(this()))

    @property
    def graphs(self) -> Graphs | None:
        return self.launches.graphs

    @property
    def forked(self) -> bool:
        """Whether this is a copy, in a fork of the session's process."""
        return os.getpid() != self._pid

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Record launches in the body of a with statement; can be repeated."""
        with contextlib.nullcontext() if self.graphs is None else self.graphs.installed():
            yield

    def recorded(self) -> Counter[str]:
        """By kernel, ordinary launches that were recorded, or captured to be recorded at their replays."""
        return self.log.ordinary() + self.taken + self.launches.captured

    def notes(self) -> list[str]:
        """Notes on bare or unrecorded launches so far, and on limits of the backend, one line each."""
        notes = self.diagnostics.notes()
        if self.graphs is not None and self.graphs.strangers:
            notes.append(
                f"{self.graphs.strangers} replays of CUDA graphs ran unrecorded: they were captured outside "
                "the session"
            )
        return notes + self.backend.notes()

    def prepare(self) -> None:
        """Have memory ready on this thread's current device before a launch asks for it, in the background:
        to allocate it, and to compare the clocks of device and host, takes tens of milliseconds once."""
        device = self.launches.device()

        def prepared() -> None:
            allow_capture()
            self.routes.buffers(device)

        in_background(prepared)

    def drain(self) -> None:
        """Bring the launches so far to the host; waits for them."""
        with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            self.log.drain()

    def fetch(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches so far with their bytes on the host, and notes on those lost."""
        if self.spooler is not None:
            return self.spooler.read()
        return fetched(self.log, self.log.launches, self._kept)

    def any_written(self) -> bool:
        """Whether a launch has written records; waits for the first ones."""
        if self._written:
            return True
        with contextlib.suppress(RuntimeError):  # as in drain()
            return any(has_records(launch.records(launch.fetch())) for launch in self.log.launches)
        return False

    def take(self, limit_bytes: int) -> tuple[list[RawLaunch], list[str]] | None:
        """Launches that have drained, out of the log: about so many bytes of them; None if there are none."""
        chosen = self.log.drained(limit_bytes)
        if not chosen:
            return None
        launches = fetched(self.log, chosen, self._kept)
        self.log.forget(chosen)
        self._written = self._written or bool(launches[0])
        self.taken.update(launch.manifest.kernel for launch in chosen if launch.mark.replay < 0)
        return launches

    def close(self) -> None:
        """Fetch everything and give the device memory back; in a forked process, nothing."""
        if self.forked:
            return
        self.diagnostics.stop("the session had ended")
        with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            self.routes.close()

    def _kept(self, build: Build | None) -> Build | None:
        """What is kept of a build: without `sources=`, none of its texts."""
        if build is None or self._sources:
            return build
        if id(build) not in self._textless:
            self._textless[id(build)] = build, replace(build, sources=(), ttgir="")
        return self._textless[id(build)][1]

    def _spooler(self, folder: Path, metadata: dict[str, Any]) -> Spooler:
        try:
            return Spooler(folder, metadata, self.take)
        except OSError as error:
            raise SessionError(f"spool={str(folder)!r} cannot be written to: {error}") from error

    def _full(self, drained_bytes: int) -> None:
        """An arena with so many bytes is on its way to the host."""
        assert self.spooler is not None
        self.spooler.full()
        if self.spooler.error:
            self.diagnostics.stop(self.spooler.error)


def _forked(recording: Recorder | None) -> None:
    """In a child process nothing is recorded."""
    if recording is not None:
        recording.diagnostics.after_fork()
        recording.routes.after_fork()
        recording.diagnostics.stop("this process is a fork of the session's")


class HeldRecords:
    """Stops the recording of a session without a spool before its records fill the host."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._bytes = 0
        available = free_bytes()
        self._limit_bytes = None if available is None else available // 2

    def add(self, drained_bytes: int) -> None:
        """An arena with so many bytes is on its way to the host."""
        self._bytes += drained_bytes
        if self._limit_bytes is not None and self._bytes > self._limit_bytes:
            self._diagnostics.stop(
                f"half of the host's free memory was full of records ({self._bytes >> 20} MiB); spool= "
                "writes them to disk"
            )
