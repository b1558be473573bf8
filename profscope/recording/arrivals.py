"""The launches so far, as they come to the host."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

import numpy as np

from profscope.decoding.alike import Alike, united
from profscope.decoding.areas import has_records
from profscope.decoding.build import Build
from profscope.decoding.raw import ORDINARY, RawLaunch
from profscope.decoding.unwritten import those_that_wrote
from profscope.recording.grouping import Group
from profscope.recording.journal import number_of_launches
from profscope.recording.launch_log import LaunchLog, fetched
from profscope.recording.sizing import needed_bytes

__all__ = ["Arrivals"]


class Arrivals:
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

    def fetch(self, keeps: str | None = None) -> tuple[list[RawLaunch], list[str]]:
        """The launches so far, less those taken, with their bytes on the host, as `fetched`. keeps: what they
        kept, None for whatever that is."""
        return fetched(self._log, self._log.keeping(keeps), self._kept)

    def any(self) -> bool:
        """Whether a launch has written records; waits for the first ones."""
        if self.written:
            return True
        with contextlib.suppress(RuntimeError):  # as in drain()
            return any(has_records(launch.slice.fetch()) for launch in self._log.launches)
        return False

    def take(self, limit_bytes: int, *, spans: bool = False) -> tuple[list[RawLaunch], list[str]] | None:
        """Launches that have drained, out of the log. spans: those that `take_sums` has
        left."""
        chosen = self._log.drained(limit_bytes, spans=spans)
        if not chosen:
            return None
        launches = fetched(self._log, chosen, self._kept)
        self._log.forget(chosen)
        self.written = self.written or bool(launches[0])
        self.taken.update(launch.manifest.kernel for launch in chosen if launch.mark == ORDINARY)
        return launches

    def take_sums(self) -> tuple[list[Alike], list[str]]:
        """Launches that keep sums and have drained, out of the log, and notes on those that were lost. Some
        may have written nothing."""
        taken: list[Alike] = []
        notes: list[str] = []
        groups = self._log.take_sums()
        for group in groups:  # at once: meanwhile they are counted nowhere
            self.taken[group.program.manifest.kernel] += group.marks.count(ORDINARY)
        for group in groups:
            try:
                taken.append(self._fetched(group))
            except RuntimeError as error:
                kernel, why = group.program.manifest.kernel, str(error).splitlines()[0]
                many = number_of_launches(len(group.indices))
                notes.append(
                    f"{many} of {kernel} lost, from launch {group.indices[0]} on: the device has faulted: "
                    f"{why}"
                )
        self.written = self.written or bool(those_that_wrote(taken)[0])  # who folds them looks at each
        return united(taken), notes

    def _fetched(self, group: Group) -> Alike:
        route, manifest = group.route, group.program.manifest
        memory, cold = route.buffers.memory(group.filling), route.buffers.cold(group.filling)
        marks = group.marks
        if cold:
            marks = [
                mark._replace(cold=True) if offset in cold else mark
                for mark, offset in zip(marks, group.offsets.tolist(), strict=True)
            ]
        size = needed_bytes(manifest, route.plan.ctas, route.plan.bits)
        return Alike(
            manifest, self._kept(group.program.build), route.device, route.plan.ctas, size, group.indices,
            np.full(len(group.indices), route.stream), marks, [(memory, group.offsets)],
        )  # fmt: skip

    def _kept(self, build: Build | None) -> Build | None:
        if build is None or self._sources:
            return build
        if id(build) not in self._textless:
            self._textless[id(build)] = build, replace(build, sources=(), ttgir="")
        return self._textless[id(build)][1]
