"""Sessions with `baseline=`: launches that are timed, bare and recorded ones by turns, so that they compare.

Which launches these are stands in `roles.py`; `keeping.py` has each of them launched through here. Two events
of the device stand around a launch. They are read when they have passed: nothing in the launch path waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.options import Options
from profscope.recording.builds import build_of
from profscope.recording.graphs import Graphs
from profscope.recording.journal import number_of_launches

__all__ = ["Baseline", "Timed"]

_NEWEST: Final = 512  # times of a variant that are kept
_BARE: Final = "bare"


def _times() -> deque[float]:
    return deque(maxlen=_NEWEST)


@dataclass(eq=False)
class Timed:
    """What is known of a variant. key: as `Build.key`, None until it was asked for. times_ns: the newest, by
    what launches kept, "bare" for those that were not recorded; bare: launches without records; waited:
    launches whose time is not known, since the stream was idle and waited for the host."""

    name: str
    key: str | None = None
    bare: int = 0
    waited: int = 0
    times_ns: dict[str, deque[float]] = field(default_factory=dict)


class Baseline:
    """The timed launches of a session. device_type: torch's, of the machine that runs them. graphs: None
    where there are none."""

    def __init__(self, options: Options, device_type: str, graphs: Graphs | None = None) -> None:
        self._options = options
        self._graphs = graphs
        self._on_gpu = device_type == "cuda"
        self._variants: list[Timed] = []
        self._pending: deque[tuple[Timed, str, Any, Any]] = deque()
        self._lock = threading.Lock()

    def variant(self, name: str) -> Timed:
        """What is kept of a variant of a kernel."""
        timed = Timed(name)
        with self._lock:
            self._variants.append(timed)
        return timed

    def can(self) -> bool:
        """Whether a launch can be timed now: events must not be asked while a thread captures a graph."""
        return self._graphs is None or not self._graphs.capturing

    def launch(
        self, timed: Timed, kernel: CompiledKernel, keeps: str, stream: int, run: Callable[[], Any]
    ) -> Any:
        """What `run` returns, which launches the binary on the stream. keeps: what the launch keeps, "spans"
        or "sums"; "bare" if it is not recorded."""
        where = _stream(stream) if self._on_gpu else None
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record(where)
        result = run()
        # Where the device has come to this event already, it waits for the kernel, and so would the time.
        waited = self._on_gpu and start.query()
        end.record(where)
        with self._lock:
            timed.bare += keeps == _BARE
            timed.waited += waited
            if timed.key is None:
                timed.key = _key(kernel)
            if not waited:
                self._pending.append((timed, keeps, start, end))
            while self._pending and self._pending[0][-1].query():
                self._read()
        return result

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "baseline" where launches are timed, and notes. Waits for those under way.

        kernels: by name, an entry for each variant: its `key`, `bare_ns` and `instrumented_ns` (the latter by
        what launches kept), the newest times of launches, and `waited`, launches whose time is not known.
        """
        if not self._options.baseline:
            return {}, []
        with self._lock:
            while self._pending:
                self._pending[0][-1].synchronize()
                self._read()
            variants = list(self._variants)
        kernels: dict[str, dict[str, dict[str, Any]]] = {}
        bare: dict[str, int] = {}
        for timed in variants:
            if timed.key is None:
                continue
            new: dict[str, Any] = {"key": timed.key, "bare_ns": [], "instrumented_ns": {}, "waited": 0}
            entry = kernels.setdefault(timed.name, {}).setdefault(timed.key, new)
            entry["waited"] += timed.waited
            bare[timed.name] = bare.get(timed.name, 0) + timed.bare
            for keeps, times in timed.times_ns.items():
                if keeps == _BARE:
                    entry["bare_ns"] += times
                else:
                    entry["instrumented_ns"].setdefault(keeps, []).extend(times)
        told = {name: list(entries.values()) for name, entries in sorted(kernels.items())}
        notes = [
            f"{name}: {number_of_launches(count)} ran bare to be timed, unrecorded (baseline=)"
            for name, count in sorted(bare.items())
            if count
        ]
        waited = sum(timed.waited for timed in variants)
        if waited:
            notes.append(
                f"the times of {number_of_launches(waited)} are not known: the GPU was idle and waited for "
                "the host; launches that follow each other at once have times"
            )
        return {"baseline": {"every": self._options.baseline, "kernels": told}}, notes

    def _read(self) -> None:
        """The oldest of those under way has passed."""
        timed, keeps, start, end = self._pending.popleft()
        timed.times_ns.setdefault(keeps, _times()).append(float(start.elapsed_time(end)) * 1e6)


def _stream(handle: int) -> Any:
    """torch's stream of a handle; ExternalStream makes a new stream of 0, the default one."""
    return torch.cuda.ExternalStream(handle) if handle else torch.cuda.default_stream()


def _key(kernel: CompiledKernel) -> str:
    try:
        return build_of(kernel).key
    except Exception:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
        return ""
