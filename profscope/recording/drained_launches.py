"""The launches so far, as they come to the host."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

from profscope.decoding.areas import has_records
from profscope.decoding.build import Build
from profscope.decoding.raw import ORDINARY, RawLaunch
from profscope.recording.launch_log import LaunchLog, fetched

__all__ = ["DrainedLaunches"]


class DrainedLaunches:
    """taken: kernel -> its ordinary launches that were taken out of the log. written: whether any launch that
    was taken had written records. sources: whether launches bring the text of their kernels."""

    def __init__(self, log: LaunchLog, *, sources: bool = True) -> None:
        self.taken: Counter[str] = Counter()
        self.written = False
        self._log = log
        self._sources = sources
        self._textless: dict[int, tuple[Build, Build]] = {}  # by what they are of, which is kept alive

    def drain(self) -> None:
        """Bring the launches so far to the host; waits for them."""
        with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            self._log.drain()

    def fetch(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches so far, less those taken, with their bytes on the host, as `fetched`."""
        return fetched(self._log, self._log.launches, self._kept)

    def any(self) -> bool:
        """Whether a launch has written records; waits for the first ones."""
        if self.written:
            return True
        with contextlib.suppress(RuntimeError):  # as in drain()
            return any(has_records(launch.records(launch.slice.fetch())) for launch in self._log.launches)
        return False

    def take(self, limit_bytes: int) -> tuple[list[RawLaunch], list[str]] | None:
        """Launches that have drained, out of the log."""
        chosen = self._log.drained(limit_bytes)
        if not chosen:
            return None
        launches = fetched(self._log, chosen, self._kept)
        self._log.forget(chosen)
        self.written = self.written or bool(launches[0])
        self.taken.update(launch.manifest.kernel for launch in chosen if launch.mark == ORDINARY)
        return launches

    def _kept(self, build: Build | None) -> Build | None:
        if build is None or self._sources:
            return build
        if id(build) not in self._textless:
            self._textless[id(build)] = build, replace(build, sources=(), ttgir="")
        return self._textless[id(build)][1]
