"""The parts of a running session, built and installed in one place."""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch
import triton

from profscope.analysis.texts import UNSEEN
from profscope.around.host_scopes import HostScopes
from profscope.around.job import Job
from profscope.around.kineto import Kineto
from profscope.compat.compiling import RecordedCompiler
from profscope.compat.origins import ORIGINS
from profscope.compat.ranges import OtherRanges
from profscope.compat.torch_parts import cpp_kernels, launched_from_cpp
from profscope.compat.triton_parts import knobs
from profscope.device import backend
from profscope.dispatch.baseline import Baseline
from profscope.dispatch.budget import Budget, Doors, pairs_timed
from profscope.dispatch.build_aside import BuildAside
from profscope.dispatch.dispatcher import Dispatcher
from profscope.dispatch.inductor import InductorLaunches
from profscope.dispatch.observing import Observing, gpu_here
from profscope.dispatch.policy import Policy
from profscope.dispatch.recording_stages import RecordingStages
from profscope.errors import SessionError
from profscope.hangs.watched_launches import WatchedLaunches
from profscope.hangs.watcher import Watcher
from profscope.options import Options
from profscope.recording.recorded_launches import RecordedLaunches
from profscope.recording.recorder import Recorder
from profscope.version import __version__

if TYPE_CHECKING:
    from profscope.dispatch.emulated_counts import EmulatedCounts
    from profscope.evidence.tables import Evidence

__all__ = ["Running", "is_recording", "running"]

_SHOWN_KERNELS: Final = 8
_RECORDING: Final[list[object]] = []  # the session that records in this process; none while it is paused
_LOCK: Final = threading.Lock()  # of what sessions install, so that of two threads' sessions one is refused


class Running:
    """A session's parts. metadata: what is known of it from the start. opened: closes with the session. more:
    entries of the metadata.

    Raises SessionError if the backend is not there, or the spool cannot be created.
    """

    def __init__(self, opened: contextlib.ExitStack, options: Options, more: Mapping[str, Any]) -> None:
        self.options = options
        self.machine = machine = opened.enter_context(backend.select(options.backend))
        self.metadata = _describe(options, machine.metadata()) | dict(more)
        self.recorder = Recorder(options, machine, self.metadata)
        self.launches, self.watcher = self._launches()
        launches, graphs = self.launches, self.recorder.graphs
        self.observing = Observing(options, launches, graphs, machine, gpu_here(machine, options))
        opened.callback(self.observing.close)
        self.budget = budget_here(options, machine)
        pairs = pairs_timed(options.baseline, self.budget)
        self.baseline = Baseline(options, machine.device_type, graphs, pairs)
        self.dispatcher = Dispatcher(
            Policy(every=options.every, observes=self.observing.observes, pairs=pairs),
            options.matches,
            RecordedCompiler(options.digest(__version__), RecordingStages(options)),
            launches,
            self.baseline,
            self.observing,
            self.budget,
        )
        aside = builds_aside(options, machine)
        self.inductor = InductorLaunches(self.dispatcher, launches.capturing, self._prepare, aside)
        if self.budget is not None:
            self.budget.doors = Doors(
                self._shut, self._looks, lambda: graphs is not None and graphs.capturing
            )
            if graphs is not None:
                graphs.beginning = self.budget.open
        self.scopes = HostScopes()
        self.kineto = Kineto(on_gpu=machine.device_type == "cuda") if options.events else None
        self.emulated_counts: EmulatedCounts | None = None
        if machine.emulated is not None and not self.observing.has_instruments:
            from profscope.dispatch.emulated_counts import EmulatedCounts

            self.emulated_counts = EmulatedCounts(machine.emulated, self.dispatcher.configurations)
        self._cpp_kernels_before = cpp_kernels()
        self._parts = (
            self.recorder, self.watcher, self.observing, self.dispatcher, self.inductor, self.scopes,
            OtherRanges(self.scopes), self.budget, aside, self.kineto, self.emulated_counts,
        )  # fmt: skip
        self._pauses = 0
        self._installed = contextlib.ExitStack()
        self.job = Job()
        opened.enter_context(self.job.joined())
        opened.callback(self._end)
        self.resume()

    def _launches(self) -> tuple[RecordedLaunches, Watcher | None]:
        """What launches, and with `hang_s=` what watches these launches."""
        recorder, hang_s = self.recorder, self.options.hang_s
        if hang_s is None:
            return recorder.launches, None
        cuda = self.machine.device_type == "cuda"
        launches = WatchedLaunches(recorder.log, recorder.routes, recorder.diagnostics, cuda=cuda)
        return launches, Watcher(launches, hang_s)

    def _prepare(self) -> None:
        """See `Recorder.prepare`; what is watched needs no memory for records."""
        if self.watcher is None:
            self.recorder.prepare()

    def resume(self) -> None:
        """Record; goes on if it does already. Raises SessionError if another session has begun meanwhile."""
        with _LOCK:
            if self in _RECORDING:
                return
            _refuse_another()
            with contextlib.ExitStack() as stack:
                _RECORDING.append(self)
                stack.callback(_RECORDING.remove, self)
                for part in self._parts:
                    if part is not None:
                        stack.enter_context(part.installed())
                self._installed = stack.pop_all()

    def pause(self) -> None:
        """Record nothing until `resume()`."""
        self._pauses += self._end()

    def _end(self) -> bool:
        """Whether there was anything to end."""
        with _LOCK:
            recorded = self in _RECORDING
            self._installed.close()
            return recorded

    def so_far(self) -> tuple[dict[str, Any], list[str]]:
        """Metadata and notes beyond what launches, `host_clock` and `lasting` say."""
        sampling, of_launches = self._launch_sampling()
        evidence, observed = self.observing.describe()
        emulated_ns = {}
        if self.emulated_counts is not None:
            evidence.setdefault("evidence", {})["tensors"] = self.emulated_counts.tensors()
            emulated_ns = self.emulated_counts.launch_ns()
        baseline, timed = self.baseline.describe(emulated_ns)
        building, left_bare = self.inductor.describe()
        notes = [
            *left_bare,
            *self._unknown_modules(),
            *of_launches,
            *self._paused(),
            *self.dispatcher.notes(),
            *observed,
            *timed,
            *self._captured(),
            *self._undescribed(),
            *self.scopes.notes(),
            *([] if self.kineto is None else self.kineto.notes),
            *self.recorder.notes(),
        ]
        if from_cpp := launched_from_cpp():
            notes.append(from_cpp)
        if not self.launches.seen:
            notes += self._why_empty(said=len(notes) > len(observed))
        budget = {} if self.budget is None else {"budget": self.budget.describe()}
        hangs = {} if self.watcher is None else self.watcher.describe()
        metadata = self.metadata | sampling | building | evidence | baseline | budget | hangs
        return metadata | self.job.describe(), notes

    def entered(self, gate: str, original: Callable[..., Any], launched: Any) -> Callable[..., Any]:
        """What the session has put in the place of a method, for a launch that has come there before it.

        gate: of what, as `compat.first_launch` names it; original: the method of `launched`, its object.
        """
        if gate == "kernel":
            return self.dispatcher.door.launcher(launched)
        if gate == "held":
            return self.dispatcher.held.called(launched)
        if gate == "tuner":
            return self.inductor.launcher(launched)
        self.dispatcher.tried.add(launched.base_fn.__name__)
        return partial(self.dispatcher.run_bare, original)

    def evidence(self) -> Evidence | None:
        """What was measured of kernels so far, beside their records; None if that is nothing."""
        if self.emulated_counts is None:
            return self.observing.tables()
        return self.emulated_counts.tables(self.observing.experiments())

    @property
    def around_changes(self) -> int:
        """How often there was something new of the program around the kernels."""
        return self.scopes.changes + (0 if self.kineto is None else self.kineto.changes)

    def host_clock(self) -> dict[str, Any]:
        """The metadata's entry "host_clock", as it is now, where there is one."""
        clocks = None if self.watcher is not None else self.machine.host_clocks
        return {} if clocks is None else clocks.describe()

    def lasting(self) -> dict[str, Any]:
        """Entries of the metadata that a session's end does not change: "clock", and "bare", by the key of
        the configuration (see `Configuration.beside_bare`), which takes some milliseconds a kernel."""
        if self.watcher is not None:  # nothing that waits for the device
            return {}
        describe = self.launches.describe
        known = ((each.key, each.beside_bare(describe)) for each in self.dispatcher.configurations.all())
        return {"clock": self.machine.clock(), "bare": {key: bare for key, bare in known if bare}}

    def _shut(self, is_shut: bool) -> None:
        self.dispatcher.shut(is_shut=is_shut)
        self.inductor.shut(is_shut=is_shut)

    def _looks(self) -> int:
        return self.dispatcher.configurations.launches().total() + self.inductor.looks

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
        captured = self.launches.captured.total()
        if self.budget is None or not captured:
            return []
        return [
            f"{captured} launches that CUDA graphs captured record at each replay, whatever overhead_pct= "
            "says; every= leaves replays out"
        ]

    def _unknown_modules(self) -> list[str]:
        if ORIGINS.unknown and self.inductor.names:
            return [f"modules of compiled models are not known: {ORIGINS.unknown}"]
        return []

    def _undescribed(self) -> list[str]:
        return [
            f"{kernel}: its configuration is not known: {why}"
            for kernel, why in sorted(self.launches.undescribed.items())
        ]

    def _paused(self) -> list[str]:
        if not self._pauses:
            return []
        times = "once" if self._pauses == 1 else f"{self._pauses} times"
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
        return [] if said else [self._cpp_kernels_before.why_unseen(cpp_kernels()) or UNSEEN]

    def _nearest_first(self, kernels: set[str]) -> list[str]:
        """By how much they look like `kernels=`, which may have a typing error."""
        asked = SequenceMatcher(b=self.options.kernels.lower())

        def unlike(kernel: str) -> tuple[float, str]:
            asked.set_seq1(kernel.lower())
            return -asked.ratio(), kernel

        return sorted(kernels, key=unlike)


@contextlib.contextmanager
def running(options: Options, more: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Running]:
    """A session for the body of a with statement. more: entries of the metadata.

    Raises SessionError if another one is active, the backend is not there, or the spool cannot be created.
    """
    _refuse_another()
    with contextlib.ExitStack() as opened:
        yield Running(opened, options, more)


def builds_aside(options: Options, machine: backend.Backend) -> BuildAside | None:
    """The builder of torch.compile's recorded binaries in other processes; None if launches wait for
    theirs."""
    if options.wait or options.hang_s is not None or machine.device_type == "cpu":
        return None
    return BuildAside(options, "gpu")


def budget_here(options: Options, machine: backend.Backend) -> Budget | None:
    """The budget of recording; None if all is recorded, as on the emulator, whose time is no program's."""
    if options.overhead_pct is None or machine.device_type == "cpu":
        return None
    return Budget(options.overhead_pct)


def is_recording() -> bool:
    """Whether a session records in this process."""
    return bool(_RECORDING)


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
