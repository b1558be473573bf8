"""Writes a session's launches to its spool as they drain, in the background, and lets go of their memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.around.host_scopes import HostScopes
from profscope.decoding.raw import RawLaunch
from profscope.store.chunks import SpoolWriter
from profscope.store.spool_reading import read
from profscope.threads import WorkerPool

if TYPE_CHECKING:
    from profscope.evidence.tables import Evidence

__all__ = ["Spooler"]

_BATCH_BYTES: Final = 32 << 20  # of one chunk
_GROWTH: Final = 1.25
_AHEAD: Final = 1  # arenas that may wait to be written: so much memory is held at most

Take = Callable[[int], tuple[list[RawLaunch], list[str]] | None]


class Spooler:
    """take: gives drained launches, about so many bytes of them, with notes on those lost; None where there
    are none. Thread-safe.

    An error of the file system ends the spool: what was written stays, `error` says what happened.
    Creating one raises OSError.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any], take: Take) -> None:
        self.error = ""
        self._evidence: Evidence | None = None  # as it stands in the file
        self._scope_changes = 0  # that the file knows of
        self.notes: list[str] = []  # on launches that were lost or wrote nothing
        self._take = take
        self._writer = SpoolWriter(folder, metadata)
        self._lock = threading.Lock()
        self._thread = WorkerPool(1, "profscope-spool")
        self._writes: deque[Future[None]] = deque()

    @property
    def path(self) -> Path:
        return self._writer.path

    def full(self) -> None:
        """Write what has drained, in the background; waits where the disk is behind by several arenas."""
        self._writes.append(self._thread.submit(self.write))
        while len(self._writes) > _AHEAD:
            self._writes.popleft().result()

    def flush(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        evidence: Evidence | None = None,
        scopes: HostScopes | None = None,
    ) -> None:
        """Write what has drained, and what is known beside it, before returning.

        evidence: None if there is none; the same object again is not written again. scopes: all are written
        again, where there are a quarter more.
        """
        self.write()
        with self._lock:
            self._guarded(lambda: self._writer.session(metadata, [*notes, *self.notes]))
            if evidence is not None and evidence is not self._evidence:
                self._guarded(lambda: self._writer.evidence(evidence))
                self._evidence = evidence
            if scopes is not None and scopes.changes > self._scope_changes * _GROWTH:
                self._write_scopes(scopes)

    def close(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        evidence: Evidence | None = None,
        scopes: HostScopes | None = None,
    ) -> None:
        """Flush and end the file."""
        self._thread.shutdown()
        self.flush(metadata, notes, evidence)
        if scopes is not None and scopes.changes != self._scope_changes:
            with self._lock:
                self._write_scopes(scopes)
        with self._lock:
            self._guarded(self._writer.close)

    def _write_scopes(self, scopes: HostScopes) -> None:
        self._scope_changes = scopes.changes
        self._guarded(lambda: self._writer.scopes(scopes.columns()))

    def read(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches in the file by now, and notes on those that are lost.

        Raises TraceError.
        """
        try:
            launches = read(self.path).launches
        except OSError as error:  # somebody has removed it
            why = f"{self.path.name} cannot be read, so all launches are lost: {error.strerror}"
            return [], [*self.notes, why]
        return launches, self.notes + [self.error] * bool(self.error)

    def write(self) -> None:
        """Write what has drained, before returning."""
        with self._lock:
            while (taken := self._take(_BATCH_BYTES)) is not None:
                launches, notes = taken
                self.notes += notes
                self._guarded(lambda: self._writer.launches(launches))  # noqa: B023  called at once

    def _guarded(self, write: Callable[[], None]) -> None:
        if not self.error:
            try:
                write()
            except OSError as error:
                self.error = f"writing {self.path.name} failed, so the launches after it are lost: {error}"
