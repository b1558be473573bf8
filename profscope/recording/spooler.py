"""Writes a session's launches to its spool as they drain, in the background, and lets go of their memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.decoding.alike import Alike
from profscope.decoding.folding import Folded
from profscope.decoding.raw import RawLaunch
from profscope.decoding.unwritten import those_that_wrote
from profscope.recording.arrivals import Arrivals
from profscope.recording.folder import is_behind
from profscope.recording.folding_process import FOLDING_THREADS
from profscope.recording.host_scopes import HostScopes
from profscope.recording.journal import number_of_launches
from profscope.threads import WorkerPool
from profscope.traces.spool import SpoolWriter
from profscope.traces.spool_reading import read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Spooler"]

_BATCH_BYTES: Final = 32 << 20  # of one chunk
_GROWTH: Final = 1.25
_AHEAD: Final = 1  # arenas that may wait to be written: so much memory is held at most

# The table of samples, and what is known of it.
Sampled = tuple["pd.DataFrame", dict[str, Any]]


class Spooler:
    """arrivals: where launches come from. folded: what launches that keep sums are folded into, once they are
    written; None where none does. sums_bytes: how much of the file these may take, None for no limit: those
    after that are folded alone, and lost if the process dies. Thread-safe.

    An error of the file system ends the spool: what was written stays, `error` says what happened.
    Creating one raises OSError.
    """

    def __init__(
        self,
        folder: Path,
        metadata: dict[str, Any],
        arrivals: Arrivals,
        folded: Folded | None = None,
        sums_bytes: int | None = None,
    ) -> None:
        self.folded = folded
        self.error = ""
        self._sampled: Sampled | None = None  # as it stands in the file
        self._scope_changes = 0  # that the file knows of
        self.notes: list[str] = []  # on launches that were lost or wrote nothing
        self._arrivals = arrivals
        self._writer = SpoolWriter(folder, metadata)
        self._lock = threading.Lock()
        self._thread = WorkerPool(1, "profscope-spool")
        self._workers = WorkerPool(FOLDING_THREADS, "profscope-fold")
        self._sums_left = sums_bytes
        self._unwritten = 0  # launches
        self._writes: deque[Future[None]] = deque()

    @property
    def path(self) -> Path:
        return self._writer.path

    def full(self) -> None:
        """Write what has drained, in the background; waits where the disk is behind by several arenas."""
        self._writes.append(self._thread.submit(self._write))
        while len(self._writes) > _AHEAD:
            self._writes.popleft().result()

    def behind(self) -> bool:
        """Whether as many arenas wait to be written as may."""
        return is_behind(self._writes, _AHEAD)

    def flush(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        sampled: Sampled | None = None,
        scopes: HostScopes | None = None,
    ) -> None:
        """Write what has drained, and what is known beside it, before returning.

        sampled: what `sampler.tables.sample_tables` returned, None where nothing was sampled; the same object
        again is not written again. scopes: all are written again, where there are a quarter more.
        """
        self._write()
        with self._lock:
            self._guarded(
                lambda: self._writer.so_far(metadata, [*notes, *self.notes, *self._about_the_file()])
            )
            if sampled is not None and sampled is not self._sampled:
                self._guarded(lambda: self._writer.samples(*sampled))
                self._sampled = sampled
            if scopes is not None and scopes.changes > self._scope_changes * _GROWTH:
                self._write_scopes(scopes)

    def close(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        sampled: Sampled | None = None,
        scopes: HostScopes | None = None,
    ) -> None:
        """Flush and end the file."""
        self._thread.shutdown()
        self.flush(metadata, notes, sampled)
        if scopes is not None and scopes.changes != self._scope_changes:
            with self._lock:
                self._write_scopes(scopes)
        self._workers.shutdown()
        if self.folded is not None:
            self.folded.close()
        with self._lock:
            self._guarded(self._writer.close)

    def _write_scopes(self, scopes: HostScopes) -> None:
        self._scope_changes = scopes.changes
        self._guarded(lambda: self._writer.scopes(scopes.columns()))

    def read(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches in the file by now that are not folded, and notes on those that are lost.

        Raises TraceError.
        """
        try:
            launches = read(self.path).launches
        except OSError as error:  # somebody has removed it
            lost = "launches that kept spans" if self.folded is not None else "all launches"
            why = f"{self.path.name} cannot be read, so {lost} are lost: {error.strerror}"
            return [], [*self.notes, why]
        if self.folded is not None:
            launches = [launch for launch in launches if launch.manifest.keeps == "spans"]
        return launches, self.notes + [self.error] * bool(self.error)

    def _about_the_file(self) -> list[str]:
        """For who reads the file without its session."""
        if not self._unwritten:
            return []
        return [
            f"{number_of_launches(self._unwritten)} that kept sums are not in this file: the session had "
            "folded them, and ended before it wrote its trace"
        ]

    def _write(self) -> None:
        with self._lock:
            if self.folded is not None:
                drained, notes = self._arrivals.take_sums()
                sums, of_nothing = those_that_wrote(drained)
                self.notes += notes + of_nothing
                self._write_sums(sums)
                self.folded.add(sums, self._workers)
                del drained, sums  # and with it what it holds on the host
            while (taken := self._arrivals.take(_BATCH_BYTES, spans=self.folded is not None)) is not None:
                launches, notes = taken
                self.notes += notes
                self._guarded(lambda: self._writer.launches(launches))  # noqa: B023  called at once

    def _write_sums(self, groups: Sequence[Alike]) -> None:
        """All of them, or those for which there is room."""
        for group in groups:
            for part in group.parts(_BATCH_BYTES):
                size = len(part) * part.size
                if self._sums_left is not None and (self._unwritten or size > self._sums_left):
                    self._unwritten += len(part)
                    continue
                if self._sums_left is not None:
                    self._sums_left -= size
                self._guarded(lambda: self._writer.alike(part))  # noqa: B023  called at once

    def _guarded(self, write: Callable[[], None]) -> None:
        if not self.error:
            try:
                write()
            except OSError as error:
                self.error = f"writing {self.path.name} failed, so the launches after it are lost: {error}"
