"""The memory of a launch's records: the length of its rings and the recorded CTAs, from its program, grid and
memory; and its device."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Final

import torch

from profscope.device.arena import DeviceBuffers
from profscope.device.backend import Backend
from profscope.device.buffers import Buffers, Full, HostBuffers
from profscope.device.sizing import must_be_zero, needed_bytes, plan
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import MAX_CTAS, MIN_RING_LOG2
from profscope.instrument_passes.selection import TURNS
from profscope.options import Options
from profscope.recording.diagnostics import Diagnostics
from profscope.recording.launch_log import LaunchLog, Plan, Route
from profscope.threads import in_background

__all__ = ["Planner", "Routes"]

# Of the memory that is left for CUDA graphs, a launch whose rings are not known yet takes so much at most.
_UNKNOWN_PART: Final = 4


class Planner:
    """log: the launches so far, from which the rings' lengths are learned. skip: told why a launch cannot be
    recorded."""

    def __init__(
        self, options: Options, backend: Backend, log: LaunchLog, skip: Callable[[str], None]
    ) -> None:
        self._stride_log2 = options.stride_log2
        # Two arenas share a GPU's memory.
        self._limit_bytes = options.memory << (19 if backend.device_type == "cuda" else 20)
        self._log = log
        self._skip = skip

    def plan(self, manifest: Manifest, ctas: int) -> Plan | None:
        """The plan of a launch, which may wait for an earlier one; None if it cannot be recorded."""
        if not ctas:
            self._skip(f"the grid of {manifest.kernel} was empty")
            return None
        return self._fit(manifest, self.learn(manifest, ctas), ctas, self._limit_bytes)

    def plan_captured(self, manifest: Manifest, ctas: int, free_bytes: int) -> Plan | None:
        """As `plan`, for a launch that is captured into a CUDA graph, without waiting for anything."""
        ring_log2 = self.known_rings(manifest, ctas)
        limit = free_bytes if ring_log2 is not None else free_bytes // _UNKNOWN_PART
        return self._fit(manifest, ring_log2, ctas, limit)

    def learn(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings, learned from its first launches, which this waits for."""
        known = self.known_rings(manifest, ctas)
        if known is not None:
            return known
        for first in self._log.launches_of(manifest.digest, ctas):
            self._log.fetch(first)
        return self.known_rings(manifest, ctas)

    def known_rings(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings; None if not known yet.

        A grid of another size is another problem, with trip counts of its own, so it learns for itself.
        """
        return self._log.ring_log2.get((manifest.digest, ctas)) if manifest.ring_bytes else MIN_RING_LOG2

    def _fit(self, manifest: Manifest, ring_log2: int | None, ctas: int, limit: int) -> Plan | None:
        """What a launch records in `limit` bytes."""
        if ctas > MAX_CTAS:
            self._skip(f"a grid of more than {MAX_CTAS} CTAs, which cannot be told apart in 32 bits")
            return None
        bits = plan(manifest, ctas, limit, ring_log2, self._stride_log2)
        if bits is None:
            self._skip(f"what {manifest.kernel} writes at least is more than memory= allows")
            return None
        needed = needed_bytes(manifest, ctas, bits)
        if not needed:
            self._skip(f"ctas= names none of the {ctas} CTAs of {manifest.kernel}")
            return None
        guessed = ring_log2 is None
        zero = must_be_zero(manifest, ctas, bits) if guessed else None
        return Plan(needed, bits.encode(), bits, ctas, zero, guessed)


class Routes:
    """Thread-safe. full: told when an arena of any device is on its way to the host.

    planner: of its launches. settled: routes that every such launch takes, by the program's digest, the
    grid's CTAs, stream and device; launches look here first.
    """

    def __init__(
        self, options: Options, backend: Backend, log: LaunchLog, diagnostics: Diagnostics, full: Full
    ) -> None:
        self.settled: dict[tuple[int, int, int, int], Route] = {}
        self._memory_mib = options.memory
        self._cuda = backend.device_type == "cuda"
        self._host_clocks = backend.host_clocks
        self._log = log
        self._diagnostics = diagnostics
        self._on_full = full
        self.planner = Planner(options, backend, log, diagnostics.skip)
        self.lock = threading.Lock()
        self.opened: dict[int, Buffers] = {}
        self._turns: dict[tuple[int, int], Iterator[int]] = {}
        diagnostics.when_stopped(self.settled.clear)

    def find(self, manifest: Manifest, ctas: float, stream: int, device: int) -> Route | None:
        """The route of a launch, which may wait for an earlier launch; None if it cannot be recorded."""
        why = self._diagnostics.stopped
        if why:
            self._diagnostics.skip(why)
            return None
        if not isinstance(ctas, int):  # a grid of floats, with which Triton's launcher is about to raise
            return None
        newest = None if self._cuda or not manifest.ring_bytes else self._log.newest(manifest.digest, ctas)
        if newest is not None:  # it has ended
            self._log.learn_again(newest)
        plan = self.planner.plan(manifest, ctas)
        buffers = None if plan is None else self.buffers(device)
        if plan is None or buffers is None:
            return None
        route = Route.of(buffers, plan, stream, device, self.turns(manifest, ctas))
        if not plan.guessed and (self._cuda or not manifest.ring_bytes):
            self.settled[manifest.digest, ctas, stream, device] = route
            if self._diagnostics.stopped:  # while the route was looked for
                self.settled.clear()
        return route

    def turns(self, manifest: Manifest, ctas: int) -> Iterator[int]:
        """The turns of the launches of a program and grid, on all streams and devices: see `TURNS`."""
        return self._turns.setdefault((manifest.digest, ctas), itertools.cycle(TURNS))

    def buffers(self, device: int) -> Buffers | None:
        """Memory of a device, None if it has none left."""
        opened = self.opened.get(device)
        return opened or self._open(device)

    def after_fork(self) -> None:
        """In a child process: the lock may be held by a thread that is gone."""
        self.lock = threading.Lock()

    def settle(self) -> None:
        """Learn what can be learned of the launches so far, before a time when nothing may wait."""
        for manifest, ctas in self._log.programs():
            self.planner.learn(manifest, ctas)

    def close(self) -> None:
        """Bring the rest to the host, and give the device memory back. Raises RuntimeError if a device has
        faulted."""
        with self.lock:
            for buffers in self.opened.values():
                buffers.close()

    def _full(self, drained_bytes: int) -> None:
        """An arena with so many bytes is on its way to the host."""
        self._on_full(drained_bytes)
        in_background(self._learn_again)

    def _learn_again(self) -> None:
        """Give programs longer rings whose newest launch that has drained had too short ones."""
        for launch in self._log.newest_drained():
            with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
                if self._log.learn_again(launch):
                    for key in [key for key in self.settled if key[:2] == launch.key]:
                        self.settled.pop(key, None)

    def _open(self, device: int) -> Buffers | None:
        budget_bytes = self._memory_mib << 20
        with self.lock:
            if device in self.opened:  # another thread was quicker
                return self.opened[device]
            why = f"no device memory for the {self._memory_mib} MiB of memory="
            if why in self._diagnostics.unrecorded:  # an attempt that fails empties torch's cache
                self._diagnostics.skip(why)
                return None
            try:
                made = (
                    DeviceBuffers(device, budget_bytes, self._full)
                    if self._cuda
                    else HostBuffers(budget_bytes, self._on_full)
                )
            except torch.OutOfMemoryError:
                self._diagnostics.skip(why)
                return None
            if self._host_clocks is not None:
                self._host_clocks.meet(device)
            self.opened[device] = made
            return made
