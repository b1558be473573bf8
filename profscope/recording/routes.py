"""Which memory a launch records into: what is planned for its program and grid, and on which device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch

from instrument_passes.manifest import Manifest
from instrument_passes.records import LaunchBits
from profscope.options import Options
from profscope.recording.arenas import MOVERS, DeviceBuffers
from profscope.recording.backend import Backend
from profscope.recording.buffers import Buffers, Full, HostBuffers
from profscope.recording.host_pages import HostPages
from profscope.recording.journal import Journal
from profscope.recording.launch_log import LaunchLog, Plan, Route
from profscope.recording.planner import Planner
from profscope.recording.sizing import needed_bytes
from profscope.recording.span_budget import SpanBudget

__all__ = ["Routes"]


class Routes:
    """Thread-safe. full: told when an arena of any device is on its way to the host; behind, pages: see
    `DeviceBuffers`.

    settled: routes that every such launch takes, by size and tag asked for, stream and device, or as
    `remember` was told; the launch path looks here first. spans: what launches may keep as spans, None where
    all do.
    """

    def __init__(
        self,
        options: Options,
        backend: Backend,
        log: LaunchLog,
        journal: Journal,
        full: Full,
        behind: Callable[[], bool],
        pages: HostPages | None = None,
    ) -> None:
        self.settled: dict[tuple[int, int, int | None, int], Route] = {}
        self._spans_wait = options.keep == "spans"
        self._met: set[tuple[int, int]] = set()  # tags and sizes of launches so far
        self._hurried: set[int] = set()  # digests
        self._memory_mib = options.memory
        self._cuda = backend.device_type == "cuda"
        self._host_clocks = backend.host_clocks
        self._log = log
        self._journal = journal
        self._told_full = full
        self._any_left_out = False  # since an arena was full
        self._behind = behind
        self._pages = pages
        self.spans = None if self._spans_wait else SpanBudget(options.spans_memory << 20)
        self._planner = Planner(options, backend, log, journal.skip, self.spans)
        self._lock = threading.Lock()
        self._buffers: dict[int, Buffers] = {}
        journal.when_stopped(self.settled.clear)

    def find(
        self, programs: Sequence[Manifest], size: int, tag: int, stream: int | None, device: int
    ) -> Route | None:
        """The route of a launch of one of these programs, which may wait for an earlier launch; None if it
        cannot be recorded."""
        plan = self._planner.plan(programs, tag, size)
        if plan is None:
            return None
        buffers = self.buffers(device)
        if buffers is None:
            return None
        route = Route.of(buffers, plan, stream or 0, device, programs)
        known = (tag, size) in self._met or all(each.digest in self._hurried for each in programs)
        if known and not self._spans_wait:
            route = route._replace(waits=False)
        self._met.add((tag, size))
        if self._planner.is_settled(tag, size):
            self.settled[size, tag, stream, device] = route._replace(waits=route.waits and self._spans_wait)
            if self._journal.stopped:  # while the route was looked for
                self.settled.clear()
        return route

    def remember(self, manifest: Manifest, ctas: int, own: int, stream: int, device: int) -> None:
        """Settle the route of launches of a program by those who know which it is, where there can be one: by
        its CTAs, `own`, which is no tag, stream and device. One such launch has been given memory."""
        plan, buffers = self._planner.plan_alone(manifest, ctas), self.buffers(device)
        if plan is not None and buffers is not None:
            self.settled[ctas, own, stream, device] = Route.of(buffers, plan, stream, device, (manifest,))
            if self._journal.stopped:  # meanwhile
                self.settled.clear()

    def hurry(self, manifest: Manifest) -> None:
        """Not even the first launches of a program wait for memory, where later ones do not."""
        self._hurried.add(manifest.digest)

    def plan_captured(self, programs: Sequence[Manifest], ctas: int, free_bytes: int) -> Plan | None:
        """The plan of a launch that is captured into a CUDA graph; waits for nothing."""
        return self._planner.plan_captured(programs, ctas, free_bytes)

    def buffers(self, device: int) -> Buffers | None:
        """Memory of a device, None if it has none left."""
        opened = self._buffers.get(device)
        return opened or self._open(device)

    def forget(self) -> None:
        """Decide anew: what was planned for a tag is not enough for all of its programs."""
        self._planner.forget()
        for key in list(self.settled):
            if key[1] > 0:  # a tag
                self.settled.pop(key, None)

    def left_out(self) -> None:
        """A launch found no memory, and went unrecorded: once there is some, launches record fewer CTAs."""
        self._any_left_out = True

    def kept_spans(self, route: Route) -> None:
        """A launch keeps spans where others keep sums."""
        assert self.spans is not None
        plan, size = route.plan, route.plan.needed
        if plan.guessed:  # little of it is kept
            shortest = LaunchBits(plan.bits.stride_log2)
            size = max(needed_bytes(manifest, plan.ctas, shortest) for manifest in route.programs)
        if self.spans.add(size):
            self._planner.forget()
            self.settled.clear()

    def settle(self) -> None:
        """Learn what can be learned of the launches so far, before a time when nothing may wait."""
        for manifest, ctas in self._log.programs():
            self._planner.learn(manifest, ctas)

    def close(self) -> None:
        """Bring what is left to the host, and give the device memory back. Raises RuntimeError if a device
        has faulted."""
        with self._lock:
            for buffers in self._buffers.values():
                buffers.close()

    def after_fork(self) -> None:
        """In a child process: the lock may be held by a thread that is gone."""
        self._lock = threading.Lock()
        self.settled.clear()

    def _full(self, drained_bytes: int) -> None:
        """An arena is on its way to the host."""
        if self._any_left_out:
            self._any_left_out = False
            if self._planner.thin_out():
                self.settled.clear()
        self._told_full(drained_bytes)

    def _open(self, device: int) -> Buffers | None:
        budget_bytes = self._memory_mib << 20
        with self._lock:
            if device in self._buffers:  # another thread was quicker
                return self._buffers[device]
            why = f"no device memory for the {self._memory_mib} MiB of memory="
            if (
                why in self._journal.unrecorded
            ):  # not tried again: an attempt that fails empties torch's cache
                self._journal.skip(why)
                return None
            try:
                # What keeps sums is folded more slowly than one thread copies.
                full, movers = self._full, MOVERS if self._spans_wait else 1
                made = (
                    DeviceBuffers(device, budget_bytes, full, self._behind, movers, self._pages)
                    if self._cuda
                    else HostBuffers(budget_bytes, full)
                )
            except torch.OutOfMemoryError:
                self._journal.skip(why)
                return None
            if self._host_clocks is not None:
                self._host_clocks.meet(device)
            self._buffers[device] = made
            return made
