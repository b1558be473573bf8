"""Which memory a launch records into: what is planned for its program and grid, and on which device."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import torch

from instrument_passes.manifest import Manifest
from instrument_passes.selection import TURNS
from profscope.device.arena import DeviceBuffers
from profscope.device.backend import Backend
from profscope.device.buffers import Buffers, Full, HostBuffers
from profscope.options import Options
from profscope.recording.diagnostics import Diagnostics
from profscope.recording.launch_log import LaunchLog, Plan, Route
from profscope.recording.planner import Planner

__all__ = ["Routes"]


class Routes:
    """Thread-safe. full: told when an arena of any device is on its way to the host.

    settled: routes that every such launch takes, by the program's digest, the grid's CTAs, stream and device;
    launches look here first.
    """

    def __init__(
        self, options: Options, backend: Backend, log: LaunchLog, journal: Diagnostics, full: Full
    ) -> None:
        self.settled: dict[tuple[int, int, int, int], Route] = {}
        self._memory_mib = options.memory
        self._cuda = backend.device_type == "cuda"
        self._host_clocks = backend.host_clocks
        self._log = log
        self._journal = journal
        self._full = full
        self._planner = Planner(options, backend, log, journal.skip)
        self._lock = threading.Lock()
        self._buffers: dict[int, Buffers] = {}
        self._turns: dict[tuple[int, int], Iterator[int]] = {}
        journal.when_stopped(self.settled.clear)

    def find(self, manifest: Manifest, ctas: float, stream: int, device: int) -> Route | None:
        """The route of a launch, which may wait for an earlier launch; None if it cannot be recorded."""
        why = self._journal.stopped
        if why:
            self._journal.skip(why)
            return None
        if not isinstance(ctas, int):  # a grid of floats, with which Triton's launcher is about to raise
            return None
        plan = self._planner.plan(manifest, ctas)
        buffers = None if plan is None else self.buffers(device)
        if plan is None or buffers is None:
            return None
        route = Route.of(buffers, plan, stream, device, self.turns(manifest, ctas))
        if not plan.guessed:
            self.settled[manifest.digest, ctas, stream, device] = route
            if self._journal.stopped:  # while the route was looked for
                self.settled.clear()
        return route

    def turns(self, manifest: Manifest, ctas: int) -> Iterator[int]:
        """Of the launches of a program and grid, which take turns on all streams and devices: see `TURNS`."""
        return self._turns.setdefault((manifest.digest, ctas), itertools.cycle(TURNS))

    def plan_captured(self, manifest: Manifest, ctas: int, free_bytes: int) -> Plan | None:
        """The plan of a launch that is captured into a CUDA graph; waits for nothing."""
        return self._planner.plan_captured(manifest, ctas, free_bytes)

    def buffers(self, device: int) -> Buffers | None:
        """Memory of a device, None if it has none left."""
        opened = self._buffers.get(device)
        return opened or self._open(device)

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

    def _open(self, device: int) -> Buffers | None:
        budget_bytes = self._memory_mib << 20
        with self._lock:
            if device in self._buffers:  # another thread was quicker
                return self._buffers[device]
            why = f"no device memory for the {self._memory_mib} MiB of memory="
            if why in self._journal.unrecorded:  # an attempt that fails empties torch's cache
                self._journal.skip(why)
                return None
            try:
                made = (
                    DeviceBuffers(device, budget_bytes, self._full)
                    if self._cuda
                    else HostBuffers(budget_bytes, self._full)
                )
            except torch.OutOfMemoryError:
                self._journal.skip(why)
                return None
            if self._host_clocks is not None:
                self._host_clocks.meet(device)
            self._buffers[device] = made
            return made
