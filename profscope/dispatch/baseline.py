"""Pairs of a bare launch and a recorded one are timed, so that they compare: with `baseline=`, and so that
`overhead_pct=` knows what a recorded launch costs.

`policy.py` tells which launches these are; the dispatcher launches each of them through here. Two events of
the device stand around a launch. They are read when they have passed: nothing in the launch path waits. The
emulator counts the cycles of a launch.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from profscope.compat.kernels import hold
from profscope.compat.triton_parts import driver
from profscope.device.graphs import Graphs
from profscope.dispatch.configurations import Configuration
from profscope.options import Options
from profscope.recording.diagnostics import number_of_launches

__all__ = ["Baseline", "Timed", "stream_of"]

_LONGEST_HOLD_NS: Final = 1_000_000


@dataclass(eq=False)
class Timed:
    """The times of a configuration. bare_ns, recorded_ns: by pair, what the launch took; bare: launches
    that ran bare; waited: launches whose time is not known, since the stream was idle and waited for the
    host; hold_ns: for so long the next one is held back."""

    bare: int = 0
    waited: int = 0
    hold_ns: int = 0
    bare_ns: dict[int, float] = field(default_factory=dict)
    recorded_ns: dict[int, float] = field(default_factory=dict)


class Baseline:
    """The timed launches of a session. device_type: torch's, of the machine that runs them. graphs: None if
    there are none. pairs: timed of each configuration."""

    def __init__(
        self, options: Options, device_type: str, graphs: Graphs | None = None, pairs: int = 0
    ) -> None:
        self._options = options
        self._pairs = pairs
        self._graphs = graphs
        self._on_gpu = device_type == "cuda"
        self.timed: dict[Configuration, Timed] = {}
        self.pending: deque[tuple[dict[int, float], int, Any, Any]] = deque()
        self._lock = threading.Lock()

    def launch(
        self, configuration: Configuration, pair: int | None, stream: int, run: Callable[[], Any], *,
        is_bare: bool,
    ) -> Any:  # fmt: skip
        """Launches on the stream; returns the result of `run`. pair: of which it is timed for; None if it
        only goes before a launch of its kind. Nothing is timed while a thread captures a CUDA graph."""
        with self._lock:
            timed = self.timed.setdefault(configuration, Timed())
            timed.bare += is_bare
        if pair is None or self._capturing:
            return run()
        if not self._on_gpu:
            result, cycles = driver.active.device.time(run)
            ns = 1e6 * driver.active.device.model.milliseconds(cycles)
            with self._lock:
                (timed.bare_ns if is_bare else timed.recorded_ns)[pair] = ns
            return result
        where = stream_of(stream)
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        begun_ns = time.perf_counter_ns()
        if timed.hold_ns:
            hold(where, timed.hold_ns)
        start.record(where)
        result = run()
        # Where the device has come to this event already, it waits for the kernel, and so would the time.
        waited = start.query()
        end.record(where)
        # Kernels that are shorter than their launches give the host no lead. A budget needs none of them.
        if self._options.baseline and (waited or timed.hold_ns):
            needed_ns = 2 * (time.perf_counter_ns() - begun_ns)
            timed.hold_ns = min(_LONGEST_HOLD_NS, needed_ns + waited * timed.hold_ns)
        with self._lock:
            timed.waited += waited
            if not waited:
                times = timed.bare_ns if is_bare else timed.recorded_ns
                self.pending.append((times, pair, start, end))
            self._read_passed()
        return result

    def extra_ns(self, configuration: Configuration) -> float:
        """How much longer a recorded launch takes on the GPU than a bare one, by the pairs that have passed.

        0 if none was timed, as while the GPU waits for the host; and on the emulator, whose time is not the
        program's."""
        if not self._on_gpu:
            return 0.0
        steady = contextlib.nullcontext(True) if self._graphs is None else self._graphs.between_captures()
        with steady as free, self._lock:
            if free:
                self._read_passed()
            timed = self.timed.get(configuration)
            pairs = [] if timed is None else sorted(timed.bare_ns.keys() & timed.recorded_ns.keys())
            if timed is None or not pairs:
                return 0.0
            more = [timed.recorded_ns[pair] - timed.bare_ns[pair] for pair in pairs]
        return max(0.0, statistics.median(more))

    def describe(
        self, emulated_ns: Mapping[tuple[str, str], tuple[float, float]]
    ) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "baseline" where launches are timed, and notes. Waits for those under way.

        emulated_ns: as of `EmulatedCounts.launch_ns`, {} on a GPU.

        kernels: by name, an entry for each variant: its `key`; `bare_ns` and `instrumented_ns`, the times of
        pairs, a bare launch's and a recorded one's at the same place of the two lists;
        `unrecorded`, launches that ran bare; and `waited`, launches whose time is not known. On the emulator
        an entry without such pairs has one of its recorded launches, with and without the instructions of
        records, and `basis` is "model".
        """
        option = "baseline=" if self._options.baseline else "overhead_pct="
        with self._lock:
            while self.pending:
                self.pending[0][-1].synchronize()
                self._read()
            every = list(self.timed.items())
        if not every and not emulated_ns and not self._options.baseline:
            return {}, []
        kernels: dict[str, dict[str, dict[str, Any]]] = {}
        bare = Counter[str]()
        for configuration, timed in every:
            entry = _entry(kernels, configuration.name, configuration.key)  # one for all devices
            pairs = sorted(timed.bare_ns.keys() & timed.recorded_ns.keys())
            entry["bare_ns"] += [timed.bare_ns[pair] for pair in pairs]
            entry["instrumented_ns"] += [timed.recorded_ns[pair] for pair in pairs]
            entry["unrecorded"] += timed.bare
            entry["waited"] += timed.waited
            bare[configuration.name] += timed.bare
        for (name, key), (recorded_ns, bare_ns) in emulated_ns.items():
            entry = _entry(kernels, name, key)
            if not entry["bare_ns"]:
                entry |= {"bare_ns": [bare_ns], "instrumented_ns": [recorded_ns], "basis": "model"}
        notes = [
            f"{name}: {number_of_launches(count)} ran bare to be timed, unrecorded ({option})"
            for name, count in sorted(bare.items())
            if count
        ]
        waited = sum(timed.waited for _, timed in every)
        if waited and self._options.baseline:  # the budget knows then that the host is what counts
            notes.append(
                f"no time is known of {number_of_launches(waited)} that ran to be timed (baseline=): "
                "the GPU was idle and waited for the host"
            )
        by_kernel = {name: list(entries.values()) for name, entries in sorted(kernels.items())}
        return {"baseline": {"pairs": self._pairs, "kernels": by_kernel}}, notes

    @property
    def _capturing(self) -> bool:
        """Whether a thread captures a CUDA graph: to ask an event would end the capture with an error."""
        return self._graphs is not None and self._graphs.capturing

    def _read_passed(self) -> None:
        """Read what has passed by now, without waiting."""
        while self.pending and self.pending[0][-1].query():
            self._read()

    def _read(self) -> None:
        """The oldest of those under way has passed."""
        times, pair, start, end = self.pending.popleft()
        times[pair] = float(start.elapsed_time(end)) * 1e6


def _entry(kernels: dict[str, dict[str, dict[str, Any]]], name: str, key: str) -> dict[str, Any]:
    new = {"key": key, "bare_ns": [], "instrumented_ns": [], "unrecorded": 0, "waited": 0}
    return kernels.setdefault(name, {}).setdefault(key, new)


def stream_of(handle: int) -> Any:
    """torch's stream of a handle; ExternalStream makes a new stream of 0, the default one."""
    return torch.cuda.ExternalStream(handle) if handle else torch.cuda.default_stream()
