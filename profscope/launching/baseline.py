"""Sessions with `baseline=`: pairs of a bare launch and a recorded one are timed, so that they compare.

Which launches these are stands in `roles.py`; `keeping.py` has each of them launched through here. Two events
of the device stand around a launch. They are read when they have passed: nothing in the launch path waits.
"""

from __future__ import annotations

import threading
import time
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

_LONGEST_HOLD_NS: Final = 1_000_000
_CYCLES_PER_NS: Final = 2  # no GPU's clock is much faster


@dataclass(eq=False)
class Timed:
    """What is known of a variant. key: as `Build.key`, None until it was asked for. bare_ns, recorded_ns: by
    the number of a launch among its variant's, what it took; bare: launches that ran bare; waited: launches
    whose time is not known, since the stream was idle and waited for the host; hold_ns: for so long the next
    one is held back."""

    name: str
    key: str | None = None
    bare: int = 0
    waited: int = 0
    hold_ns: int = 0
    bare_ns: dict[int, float] = field(default_factory=dict)
    recorded_ns: dict[int, float] = field(default_factory=dict)


class Baseline:
    """The timed launches of a session. device_type: torch's, of the machine that runs them. graphs: None
    where there are none."""

    def __init__(self, options: Options, device_type: str, graphs: Graphs | None = None) -> None:
        self._options = options
        self._graphs = graphs
        self._on_gpu = device_type == "cuda"
        self._variants: list[Timed] = []
        self._pending: deque[tuple[dict[int, float], int, Any, Any]] = deque()
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
        self, timed: Timed, kernel: CompiledKernel, number: int, stream: int, run: Callable[[], Any], *,
        is_bare: bool,
    ) -> Any:  # fmt: skip
        """What `run` returns, which launches a binary on the stream. kernel: the binary; number: of the
        launch, among its variant's; is_bare: whether the binary is the bare one."""
        where = _stream(stream) if self._on_gpu else None
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        begun_ns = time.perf_counter_ns()
        if timed.hold_ns:
            with torch.cuda.stream(where):
                torch.cuda._sleep(timed.hold_ns * _CYCLES_PER_NS)
        start.record(where)
        result = run()
        # Where the device has come to this event already, it waits for the kernel, and so would the time.
        waited = self._on_gpu and start.query()
        end.record(where)
        if waited or timed.hold_ns:  # kernels that are shorter than their launches give the host no lead
            needed_ns = 2 * (time.perf_counter_ns() - begun_ns)
            timed.hold_ns = min(_LONGEST_HOLD_NS, needed_ns + waited * timed.hold_ns)
        with self._lock:
            timed.bare += is_bare
            timed.waited += waited
            if timed.key is None:
                timed.key = _key(kernel)
            if not waited:
                times = timed.bare_ns if is_bare else timed.recorded_ns
                self._pending.append((times, number, start, end))
            while self._pending and self._pending[0][-1].query():
                self._read()
        return result

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "baseline" where launches are timed, and notes. Waits for those under way.

        kernels: by name, an entry for each variant: its `key`; `bare_ns` and `instrumented_ns`, the times of
        pairs, a bare launch's and that of the recorded one behind it at the same place of the two lists;
        `unrecorded`, launches that ran bare; and `waited`, launches whose time is not known.
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
            new: dict[str, Any] = {
                "key": timed.key, "bare_ns": [], "instrumented_ns": [], "unrecorded": 0, "waited": 0,
            }  # fmt: skip
            entry = kernels.setdefault(timed.name, {}).setdefault(timed.key, new)
            entry["waited"] += timed.waited
            entry["unrecorded"] += timed.bare
            bare[timed.name] = bare.get(timed.name, 0) + timed.bare
            for number in sorted(timed.bare_ns):
                if number + 1 in timed.recorded_ns:
                    entry["bare_ns"].append(timed.bare_ns[number])
                    entry["instrumented_ns"].append(timed.recorded_ns[number + 1])
        told = {name: list(entries.values()) for name, entries in sorted(kernels.items())}
        notes = [
            f"{name}: {number_of_launches(count)} ran bare to be timed, unrecorded (baseline=)"
            for name, count in sorted(bare.items())
            if count
        ]
        waited = sum(timed.waited for timed in variants)
        if waited:
            notes.append(
                f"no time is known of {number_of_launches(waited)} that ran to be timed (baseline=): "
                "the GPU was idle and waited for the host"
            )
        return {"baseline": {"pairs": self._options.baseline, "kernels": told}}, notes

    def _read(self) -> None:
        """The oldest of those under way has passed."""
        times, number, start, end = self._pending.popleft()
        times[number] = float(start.elapsed_time(end)) * 1e6


def _stream(handle: int) -> Any:
    """torch's stream of a handle; ExternalStream makes a new stream of 0, the default one."""
    return torch.cuda.ExternalStream(handle) if handle else torch.cuda.default_stream()


def _key(kernel: CompiledKernel) -> str:
    try:
        return build_of(kernel).key
    except Exception:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
        return ""
