"""What the first reading of evidence needs, made ready while launches run: modules, and the instructions of
observed binaries."""

from __future__ import annotations

import contextlib
from concurrent.futures import CancelledError, Future
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

from profscope.binaries.rows import instructions
from profscope.threads import WorkerPool

__all__ = ["ReadingAhead"]

_MODULES: Final = (
    "profscope.evidence.tables",
    "profscope.decoding.assemble",
    "profscope.around.host_tables",
    "profscope.analysis.verdict",
    "profscope.analysis.findings",
    "profscope.analysis.rules.diagnose",
)
"""That the tables of a session and its findings import, in this order."""

_MOST_BINARIES: Final = 16
"""That are read ahead: `binaries.rows` keeps twice as many, and what it drops would be read again."""


class ReadingAhead:
    """Of a session. One thread does it, and ends with the session. What goes wrong there goes wrong again for
    whoever reads, who is told."""

    def __init__(self) -> None:
        self._pool = WorkerPool(1, "profscope-ahead")
        self._binaries: set[tuple[bytes, str]] = set()
        self._begun: list[Future[Any]] = [self._pool.submit(import_module, name) for name in _MODULES]

    def read(self, cubin: bytes, ptx: str) -> None:
        """Have `instructions` of a binary ready, soon."""
        if (cubin, ptx) in self._binaries or len(self._binaries) == _MOST_BINARIES:
            return
        self._binaries.add((cubin, ptx))
        kernel = SimpleNamespace(asm={"cubin": cubin, "ptx": ptx})
        self._begun.append(self._pool.submit(instructions, kernel))

    def wait(self) -> None:
        """For all that was asked for: whoever reads would else do it at the same time."""
        for work in self._begun:
            with contextlib.suppress(CancelledError):
                work.exception()
        self._begun.clear()

    def close(self) -> None:
        """Wait for what is under way, and leave the rest."""
        self._pool.shutdown(cancel_futures=True)
