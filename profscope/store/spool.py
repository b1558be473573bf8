"""Writes a session's launches to its spool as they drain, in the background, and lets go of their memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from profscope.around.host_scopes import HostScopes
from profscope.decoding.build import RawLaunch
from profscope.store.chunks import SpoolWriter
from profscope.store.spool_reading import read
from profscope.threads import WorkerPool

if TYPE_CHECKING:
    from profscope.evidence.tables import Evidence

__all__ = ["Spooler"]

P = ParamSpec("P")
_BATCH_BYTES: Final = 32 << 20  # of one chunk
_GROWTH: Final = 1.25
_AHEAD: Final = 1  # arenas that may wait to be written: so much memory is held at most

Take = Callable[[int], tuple[list[RawLaunch], list[str]] | None]


class Spooler:
    """take: gives drained launches, about so many bytes of them, with notes on lost ones; None if there are
    none. Thread-safe: one thread writes.

    An error of the file system ends the spool: the written part stays, `error` has the error. Creating one
    raises OSError.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any], take: Take) -> None:
        self.error = ""
        self.notes: list[str] = []  # on launches that were lost or wrote nothing
        self._take = take
        self._writer = SpoolWriter(folder, metadata)
        self._evidence: Evidence | None = None  # as it stands in the file
        self._scope_changes = 0  # that the file knows of
        self._thread = WorkerPool(1, "profscope-writer")
        self._writes: deque[Future[None]] = deque()

    @property
    def path(self) -> Path:
        return self._writer.path

    def full(self) -> None:
        """Write drained launches in the background; waits if the disk is behind by several arenas."""
        self._writes.append(self._thread.submit(self._write))
        while len(self._writes) > _AHEAD:
            self._writes.popleft().result()

    def write(self) -> None:
        """Write drained launches before returning."""
        self._thread.submit(self._write).result()

    def flush(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        evidence: Evidence | None = None,
        scopes: HostScopes | None = None,
        *,
        ends: bool = False,
    ) -> None:
        """Write drained launches and the other facts before returning.

        evidence: None if there is none; the same object again is not written again. scopes: all are written
        again if there are a quarter more, or if the session `ends`, and the file with it.
        """
        growth = 1.0 if ends else _GROWTH
        self._thread.submit(self._state, metadata, notes, evidence, scopes, growth).result()
        if ends:
            self._thread.submit(self._guarded, self._writer.close).result()
            self._thread.shutdown()

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

    # What the thread does

    def _write(self) -> None:
        """Append what has drained."""
        while (taken := self._take(_BATCH_BYTES)) is not None:
            launches, notes = taken
            self.notes += notes
            self._guarded(self._writer.launches, launches)

    def _state(
        self,
        metadata: dict[str, Any],
        notes: Sequence[str],
        evidence: Evidence | None,
        scopes: HostScopes | None,
        growth: float,
    ) -> None:
        """Append what has drained, and what is new of the rest. growth: of the scopes, from which on they are
        written again."""
        self._write()
        self._guarded(self._writer.session, metadata, [*notes, *self.notes])
        if evidence is not None and evidence is not self._evidence:
            self._guarded(self._writer.evidence, evidence)
            self._evidence = evidence
        if scopes is not None and scopes.changes > self._scope_changes * growth:
            self._scope_changes = scopes.changes
            self._guarded(self._writer.scopes, scopes.columns())

    def _guarded(self, write: Callable[P, None], *args: P.args, **options: P.kwargs) -> None:
        if not self.error:
            try:
                write(*args, **options)
            except OSError as error:
                self._writer.give_up()
                self.error = f"writing {self.path.name} failed, so the launches after it are lost: {error}"
