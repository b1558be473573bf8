"""Writes a session's launches to its spool as they drain, in the background, and lets go of their memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.decoding.folding import Folded
from profscope.decoding.raw import RawLaunch
from profscope.recording.folder import FOLDING_THREADS
from profscope.recording.journal import number_of_launches
from profscope.threads import WorkerPool
from profscope.traces.spool import SpoolWriter
from profscope.traces.spool_reading import read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Spooler"]

_BATCH_BYTES: Final = 32 << 20  # of one chunk
_AHEAD: Final = 2  # writes that may be outstanding before launches wait: so much memory is held at most

# Takes launches that have drained, at most so many bytes of them, out of the collector: those that were
# recorded, and notes on the others. Nothing at all when none is left.
Take = Callable[[int], tuple[list[RawLaunch], list[str]] | None]

# The table of samples, and what is known of it.
Sampled = tuple["pd.DataFrame", dict[str, Any]]


class Spooler:
    """take: where launches come from. folded: what launches that keep sums are folded into, once they are
    written; None where none does. sums_bytes: how much of the file these may take, None for no limit: those
    after that are folded alone, and lost if the process dies. Thread-safe.

    An error of the file system ends the spool: what was written stays, `error` says what happened.
    Creating one raises OSError.
    """

    def __init__(
        self,
        folder: Path,
        metadata: dict[str, Any],
        take: Take,
        folded: Folded | None = None,
        sums_bytes: int | None = None,
    ) -> None:
        self.folded = folded
        self.error = ""
        self._sampled: Sampled | None = None  # as it stands in the file
        self.notes: list[str] = []  # on launches that were lost or wrote nothing
        self._take = take
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

    def flush(self, metadata: dict[str, Any], notes: Sequence[str], sampled: Sampled | None = None) -> None:
        """Write what has drained, and what is known beside it, before returning.

        sampled: what `sampler.tables.sample_tables` returned, None where nothing was sampled; the same object
        again is not written again.
        """
        self._write()
        with self._lock:
            self._guarded(
                lambda: self._writer.so_far(metadata, [*notes, *self.notes, *self._about_the_file()])
            )
            if sampled is not None and sampled is not self._sampled:
                self._guarded(lambda: self._writer.samples(*sampled))
                self._sampled = sampled

    def close(self, metadata: dict[str, Any], notes: Sequence[str], sampled: Sampled | None = None) -> None:
        """Flush and end the file."""
        self._thread.shutdown()
        self.flush(metadata, notes, sampled)
        self._workers.shutdown()
        with self._lock:
            self._guarded(self._writer.close)

    def read(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches in the file by now that are not folded, and notes on those that are lost.

        Raises TraceError.
        """
        launches = read(self.path).launches
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
            while (taken := self._take(_BATCH_BYTES)) is not None:
                launches, notes = taken
                self.notes += notes
                written = self._to_write(launches)
                if written:
                    self._guarded(lambda: self._writer.launches(written))  # noqa: B023  called at once
                if self.folded is not None:
                    sums = [launch for launch in launches if launch.manifest.keeps == "sums"]
                    self.folded.add(sums, self._workers)

    def _to_write(self, launches: list[RawLaunch]) -> list[RawLaunch]:
        """All of them, or without those that keep sums and for which there is no room."""
        if self._sums_left is None:
            return launches
        written = []
        for launch in launches:
            if launch.manifest.keeps == "sums":
                if self._unwritten or launch.buffer.nbytes > self._sums_left:
                    self._unwritten += 1
                    continue
                self._sums_left -= launch.buffer.nbytes
            written.append(launch)
        return written

    def _guarded(self, write: Callable[[], None]) -> None:
        if not self.error:
            try:
                write()
            except OSError as error:
                self.error = f"writing {self.path.name} failed, so the launches after it are lost: {error}"
