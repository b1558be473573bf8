"""What a running session consists of, built and installed in one place."""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
import triton

from profscope.analysis.notes import UNSEEN
from profscope.around.host_scopes import HostScopes
from profscope.around.job import Job
from profscope.around.kineto import Kineto
from profscope.compat.aot_inductor import AheadOfTime
from profscope.compat.compiling import RecordedCompiler
from profscope.compat.origins import ORIGINS
from profscope.compat.other_ranges import OtherRanges
from profscope.compat.torch_parts import CppKernels, cpp_kernels
from profscope.compat.triton_parts import knobs
from profscope.device import backend
from profscope.dispatch.baseline import Baseline
from profscope.dispatch.budget import Budget, pairs_timed
from profscope.dispatch.build_aside import BuildAside
from profscope.dispatch.dispatcher import Dispatcher
from profscope.dispatch.emulated_counts import EmulatedCounts
from profscope.dispatch.inductor import InductorLaunches
from profscope.dispatch.observing import Observing, machine_here
from profscope.dispatch.policy import Policy
from profscope.dispatch.recording_stages import RecordingStages
from profscope.errors import SessionError
from profscope.options import Options
from profscope.recording.recorder import Recorder, recorder
from profscope.version import __version__

if TYPE_CHECKING:
    from profscope.evidence.tables import Evidence

__all__ = ["Running", "is_recording", "running"]

_SHOWN_KERNELS: Final = 8
_RECORDING: Final[list[object]] = []  # the session that records in this process; none while it is paused


class _Part(Protocol):
    """What can be installed for the body of a with statement, again and again."""

    def installed(self) -> contextlib.AbstractContextManager[None]: ...


class _Installed:
    """What is installed while a session records, and is not while it is paused. installed: makes that."""

    def __init__(self, installed: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        self.pauses = 0
        self._installed = installed
        self._stack = contextlib.ExitStack()
        self._recording = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            if not self._recording:
                self._stack.enter_context(self._installed())
                self._recording = True

    def end(self) -> bool:
        """Whether there was anything to end."""
        with self._lock:
            ended, self._recording = self._recording, False
            self._stack.close()
            return ended


@dataclass(frozen=True, eq=False)
class Running:
    """A session's parts. metadata: what is known of it from the start."""

    installed: _Installed
    options: Options
    machine: backend.Backend
    metadata: dict[str, Any]
    recorder: Recorder
    dispatcher: Dispatcher
    observing: Observing
    emulated_counts: EmulatedCounts | None
    baseline: Baseline
    budget: Budget | None
    inductor: InductorLaunches
    ahead: AheadOfTime
    job: Job
    scopes: HostScopes
    kineto: Kineto | None
    cpp_kernels_before: CppKernels

    def pause(self) -> None:
        """Record nothing until `resume()`."""
        self.installed.pauses += self.installed.end()

    def resume(self) -> None:
        """Raises SessionError if another session has begun meanwhile."""
        self.installed.begin()

    def so_far(self) -> tuple[dict[str, Any], list[str]]:
        """Metadata and notes beyond what the launches themselves say."""
        sampling, of_launches = self._launch_sampling()
        hardware, observed = self.observing.describe()
        baseline, timed = self.baseline.describe()
        building, left_bare = self.inductor.describe()
        notes = [
            *left_bare,
            *self.ahead.notes(),
            *self._unknown_modules(),
            *of_launches,
            *self._pauses(),
            *self.dispatcher.notes(),
            *observed,
            *timed,
            *self._captured(),
            *self._undescribed(),
            *self.scopes.notes(),
            *([] if self.kineto is None else self.kineto.notes),
            *self.recorder.notes(),
        ]
        if not self.recorder.launches.seen:
            notes += self._why_empty(said=len(notes) > len(observed))
        more = {"clock": self.machine.clock(), "bare": self._bare()}
        if self.budget is not None:
            more["budget"] = self.budget.describe()
        told = self.metadata | sampling | building | hardware | baseline | more
        return told | self.job.describe(), notes

    def entered(self, gate: str, original: Callable[..., Any], launched: Any) -> Callable[..., Any]:
        """What the session has put in the place of a method, for a launch that has come there before it.

        gate: of what, as `commands.first_launch` names it; original: the method; launched: its object.
        """
        if gate == "kernel":
            return self.dispatcher.door(launched)
        before = {
            "trial": self.dispatcher.trial,
            "tuner": self.inductor.door,
            "package": self.ahead.counting,
            "graph": self.ahead.counting_graphs,
        }
        return partial(before[gate](original), launched)

    def evidence(self) -> Evidence | None:
        """What the hardware, or the emulator, has counted so far; None if that is nothing."""
        return self.observing.tables() if self.emulated_counts is None else self.emulated_counts.tables()

    @property
    def around_changes(self) -> int:
        """How often there was something new of the program around the kernels."""
        return self.scopes.changes + (0 if self.kineto is None else self.kineto.changes)

    def host_clock(self) -> dict[str, Any]:
        """The metadata's entry "host_clock", as it is now, where there is one."""
        clocks = self.machine.host_clocks
        return {} if clocks is None else clocks.describe()

    def _launch_sampling(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "sampling" if only some launches are recorded, and notes.

        Trials and replays do not count, neither among those recorded nor among those that there were.
        """
        if self.options.every == 1 and self.budget is None:
            return {}, []
        launches, recorded = self.dispatcher.configurations.launches(), self.recorder.recorded()
        kernels = {
            name: {"launches": count, "recorded": recorded.get(name, 0)}
            for name, count in sorted(launches.items())
            if count
        }
        notes = [
            f"{name}: {counts['recorded']} of {counts['launches']} launches were recorded; counts and totals "
            "are of those"
            for name, counts in kernels.items()
            if counts["recorded"] < counts["launches"]
        ]
        return {"sampling": {"every": self.options.every, "kernels": kernels}}, notes

    def _captured(self) -> list[str]:
        captured = self.recorder.launches.captured.total()
        if self.budget is None or not captured:
            return []
        return [
            f"{captured} launches that CUDA graphs captured record at each replay, whatever overhead_pct= "
            "says; every= leaves replays out"
        ]

    def _bare(self) -> dict[str, Any]:
        """What the bare binaries take that recorded ones stand for, by the configuration's key, and their
        arithmetic."""
        builds = (
            self.recorder.launches.describe(each.bare.kernel)
            for each in self.dispatcher.configurations.all()
            if each.bare is not None and each.recorded is not None
        )
        return {
            build.key: build.resources() | {"arithmetic": build.arithmetic}
            for build in builds
            if build is not None
        }

    def _unknown_modules(self) -> list[str]:
        if ORIGINS.unknown and self.inductor.seen:
            return [f"modules of compiled models are not known: {ORIGINS.unknown}"]
        return []

    def _undescribed(self) -> list[str]:
        return [
            f"{kernel}: its configuration is not known: {why}"
            for kernel, why in sorted(self.recorder.launches.undescribed.items())
        ]

    def _pauses(self) -> list[str]:
        if not self.installed.pauses:
            return []
        times = "once" if self.installed.pauses == 1 else f"{self.installed.pauses} times"
        return [f"recording was paused {times}; what was launched meanwhile counts nowhere"]

    def _why_empty(self, *, said: bool) -> list[str]:
        """Why there is no launch so far. said: other notes say something."""
        seen = self.dispatcher.seen | self.inductor.names
        passed_over = [name for name in self._nearest_first(seen) if not self.options.matches(name)]
        if knobs.runtime.interpret:
            return [
                "Triton's interpreter is on (TRITON_INTERPRET=1): it runs kernels in Python and compiles none"
            ]
        if passed_over:
            kernels = ", ".join(passed_over[:_SHOWN_KERNELS]) + ", ..." * (len(passed_over) > _SHOWN_KERNELS)
            return [f"kernels={self.options.kernels!r} matches none of those that were launched: {kernels}"]
        if self.dispatcher.tried and not said:
            tried = ", ".join(sorted(self.dispatcher.tried))
            return [f"only an autotuner launched {tried}; its trials are not recorded"]
        return [] if said else [self.cpp_kernels_before.why_unseen(cpp_kernels()) or UNSEEN]

    def _nearest_first(self, kernels: set[str]) -> list[str]:
        """By how much they look like `kernels=`, which may have a typing error."""
        asked = SequenceMatcher(b=self.options.kernels.lower())

        def unlike(kernel: str) -> tuple[float, str]:
            asked.set_seq1(kernel.lower())
            return -asked.ratio(), kernel

        return sorted(kernels, key=unlike)


@contextlib.contextmanager
def running(options: Options, told: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Running]:
    """A session for the body of a with statement. told: more entries of the metadata.

    Raises SessionError if another one is active, the backend is not there, or the spool cannot be created.
    """
    _refuse_another()
    cpp_kernels_before = cpp_kernels()
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(backend.select(options.backend))
        metadata = _describe(options, machine.metadata()) | dict(told)
        records = recorder(options, machine, metadata)
        observing = Observing(options, records.launches, records.graphs, machine_here(machine, options))
        stack.callback(observing.close)
        budget = budget_here(options, machine)
        pairs = pairs_timed(options.baseline, budget)
        baseline = Baseline(options, machine.device_type, records.graphs, pairs)
        policy = Policy(every=options.every, observes=observing.observes, pairs=pairs)
        compiler = RecordedCompiler(options.digest(__version__), RecordingStages(options))
        dispatcher = Dispatcher(
            policy, options.matches, compiler, records.launches, baseline, observing, budget
        )
        aside = builds_aside(options, machine)
        inductor = InductorLaunches(dispatcher, records.launches.capturing, records.preparation, aside)
        ahead = AheadOfTime()
        scopes = HostScopes(
            records.log.__len__, records.lanes.scopes_of, records.lanes.launched, records.lanes.alone
        )
        kineto = Kineto(on_gpu=machine.device_type == "cuda") if options.events else None
        counts = None
        if machine.emulated is not None and not observing.observes:
            counts = EmulatedCounts(machine.emulated, dispatcher.configurations)
        optional = (part for part in (budget, aside, kineto, counts) if part is not None)
        parts: tuple[_Part, ...] = (
            records, observing, dispatcher, inductor, ahead, scopes, OtherRanges(scopes), *optional
        )  # fmt: skip
        installed = _Installed(lambda: _all_installed(parts))
        job = Job()
        stack.enter_context(job.joined())
        stack.callback(installed.end)
        installed.begin()
        yield Running(
            installed,
            options,
            machine,
            metadata,
            records,
            dispatcher,
            observing,
            counts,
            baseline,
            budget,
            inductor,
            ahead,
            job,
            scopes,
            kineto,
            cpp_kernels_before,
        )


def builds_aside(options: Options, machine: backend.Backend) -> BuildAside | None:
    """What builds recorded binaries of torch.compile in other processes; None if launches wait for theirs."""
    return None if options.wait or machine.device_type == "cpu" else BuildAside(options, "gpu")


def budget_here(options: Options, machine: backend.Backend) -> Budget | None:
    """What recording may add; None if all is recorded, as on the emulator, whose time is no program's."""
    if options.overhead_pct is None or machine.device_type == "cpu":
        return None
    return Budget(options.overhead_pct)


def is_recording() -> bool:
    """Whether a session records in this process."""
    return bool(_RECORDING)


@contextlib.contextmanager
def _all_installed(parts: Sequence[_Part]) -> Iterator[None]:
    _refuse_another()
    with contextlib.ExitStack() as stack:
        _RECORDING.append(parts)
        stack.callback(_RECORDING.remove, parts)
        for part in parts:
            stack.enter_context(part.installed())
        yield


def _refuse_another() -> None:
    if is_recording():
        raise SessionError("a profscope session is already active in this process; sessions do not nest")


def _describe(options: Options, about_backend: dict[str, Any]) -> dict[str, Any]:
    return {
        "tool": "profscope",
        "profscope": __version__,
        **about_backend,
        "triton": triton.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "began_unix_ns": time.time_ns(),
        "options": options.described(),
    }
