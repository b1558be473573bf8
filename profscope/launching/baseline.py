"""Sessions with `baseline=`: launches that are timed, bare and recorded ones by turns, so that they compare.

Which launches these are stands in `roles.py`; `keeping.py` has each of them launched through here. Two events
of the device stand around a launch. They are read when they have passed: nothing in the launch path waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.options import Options
from profscope.recording.builds import build_of
from profscope.recording.graphs import Graphs
from profscope.recording.journal import number_of_launches

__all__ = ["Baseline", "Timed"]

_NEWEST: Final = 1024  # times of a variant that are kept
_LONGEST_HOLD_NS: Final = 1_000_000
_CYCLES_PER_NS: Final = 2  # no GPU's clock is much faster


class _Time(NamedTuple):
    """Of a launch. number: among its variant's; kind: by how many instructions the bare kernel was shifted,
    0 for itself, or "spans" of a recorded launch."""

    number: int
    kind: int | str
    ns: float


def _times() -> deque[_Time]:
    return deque(maxlen=_NEWEST)


@dataclass(eq=False)
class Timed:
    """What is known of a variant. key: as `Build.key`, None until it was asked for. times: the newest; bare:
    launches without records, of which `shifted` ran null builds; waited: launches whose time is not known,
    since the stream was idle and waited for the host; hold_ns: for so long the next one is held back."""

    name: str
    key: str | None = None
    bare: int = 0
    shifted: int = 0
    waited: int = 0
    hold_ns: int = 0
    times: deque[_Time] = field(default_factory=_times)


class Baseline:
    """The timed launches of a session. device_type: torch's, of the machine that runs them. graphs: None
    where there are none."""

    def __init__(self, options: Options, device_type: str, graphs: Graphs | None = None) -> None:
        self._options = options
        self._graphs = graphs
        self._on_gpu = device_type == "cuda"
        self._variants: list[Timed] = []
        self._pending: deque[tuple[Timed, int, int | str, Any, Any]] = deque()
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
        self, timed: Timed, kernel: CompiledKernel, number: int, kind: int | str, stream: int,
        run: Callable[[], Any],
    ) -> Any:  # fmt: skip
        """What `run` returns, which launches a binary on the stream. kernel: the binary, or the bare one of a
        null build; number, kind: as `_Time` has them."""
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
        bare = not isinstance(kind, str)
        with self._lock:
            timed.bare += bare
            timed.shifted += bare and kind != 0
            timed.waited += waited
            if timed.key is None:
                timed.key = _key(kernel)
            if not waited:
                self._pending.append((timed, number, kind, start, end))
            while self._pending and self._pending[0][-1].query():
                self._read()
        return result

    def launch_untimed(self, timed: Timed, shift: int, run: Callable[[], Any]) -> Any:
        """As `launch`, of a bare binary or null build that only goes before one that is timed."""
        with self._lock:
            timed.bare += 1
            timed.shifted += shift != 0
        return run()

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "baseline" where launches are timed, and notes. Waits for those under way.

        kernels: by name, an entry for each variant: its `key`; `bare_ns` and `instrumented_ns`, the newest
        times of launches; `pairs`, a list of `{"shift", "bare_ns", "instrumented_ns"}`, the times of a bare
        launch and of the recorded one of its turn, at the same place of two lists: shift is 0, or the
        instructions by which a null build's code was shifted; `unrecorded`, launches that ran bare; and
        `waited`, launches whose time is not known.
        """
        if not self._options.baseline:
            return {}, []
        with self._lock:
            while self._pending:
                self._pending[0][-1].synchronize()
                self._read()
            variants = list(self._variants)
        kernels: dict[str, dict[str, dict[str, Any]]] = {}
        bare: dict[str, list[int]] = {}
        for timed in variants:
            if timed.key is None:
                continue
            new: dict[str, Any] = {
                "key": timed.key, "bare_ns": [], "instrumented_ns": [], "pairs": [],
                "unrecorded": 0, "waited": 0,
            }  # fmt: skip
            entry = kernels.setdefault(timed.name, {}).setdefault(timed.key, new)
            entry["waited"] += timed.waited
            entry["unrecorded"] += timed.bare
            counts = bare.setdefault(timed.name, [0, 0])
            counts[0] += timed.bare
            counts[1] += timed.shifted
            for each in timed.times:
                if each.kind == 0:
                    entry["bare_ns"].append(each.ns)
                elif isinstance(each.kind, str):
                    entry["instrumented_ns"].append(each.ns)
            _pair(timed.times, entry["pairs"])
        told = {name: list(entries.values()) for name, entries in sorted(kernels.items())}
        notes = [
            f"{name}: {number_of_launches(count)} ran bare to be timed, unrecorded (baseline=)"
            + (f"; {shifted} of them with its code shifted" if shifted else "")
            for name, (count, shifted) in sorted(bare.items())
            if count
        ]
        waited = sum(timed.waited for timed in variants)
        if waited:
            notes.append(
                f"no time is known of {number_of_launches(waited)} that ran to be timed (baseline=): "
                "the GPU was idle and waited for the host"
            )
        return {"baseline": {"every": self._options.baseline, "kernels": told}}, notes

    def _read(self) -> None:
        """The oldest of those under way has passed."""
        timed, number, kind, start, end = self._pending.popleft()
        timed.times.append(_Time(number, kind, float(start.elapsed_time(end)) * 1e6))


def _pair(times: deque[_Time], pairs: list[dict[str, Any]]) -> None:
    """Add the times of bare launches and of the recorded ones of their turns, those alike in one entry."""
    by_shift = {each["shift"]: each for each in pairs}
    recorded = {each.number: each for each in times if isinstance(each.kind, str)}
    for bare in times:
        after = recorded.get(bare.number + 2)
        if isinstance(bare.kind, str) or after is None:
            continue
        if bare.kind not in by_shift:
            by_shift[bare.kind] = {"shift": bare.kind, "bare_ns": [], "instrumented_ns": []}
            pairs.append(by_shift[bare.kind])
        by_shift[bare.kind]["bare_ns"].append(bare.ns)
        by_shift[bare.kind]["instrumented_ns"].append(after.ns)


def _stream(handle: int) -> Any:
    """torch's stream of a handle; ExternalStream makes a new stream of 0, the default one."""
    return torch.cuda.ExternalStream(handle) if handle else torch.cuda.default_stream()


def _key(kernel: CompiledKernel) -> str:
    try:
        return build_of(kernel).key
    except Exception:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
        return ""
