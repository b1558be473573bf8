"""What a running session consists of, built and installed in one place."""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Final, Protocol

import torch
import triton
from triton import knobs

from profscope.analysis.notes import UNSEEN
from profscope.errors import SessionError
from profscope.launching.aot_inductor import AheadOfTime
from profscope.launching.bare import BareLaunches
from profscope.launching.baseline import Baseline
from profscope.launching.beside import Beside
from profscope.launching.cpp_kernels import CppKernels, cpp_kernels
from profscope.launching.hook import CompileHook
from profscope.launching.inductor import InductorLaunches
from profscope.launching.keeping import Keeping
from profscope.launching.kept import KeptBinaries
from profscope.launching.sampling import Sampling
from profscope.launching.stall_samples import StallSamples, gpu_here
from profscope.options import Options
from profscope.recording import backend
from profscope.recording.host_scopes import HostScopes
from profscope.recording.job import Job
from profscope.recording.kineto import Kineto
from profscope.recording.launch_path import LaunchPath
from profscope.recording.origins import ORIGINS
from profscope.recording.other_ranges import OtherRanges
from profscope.recording.programs import PROGRAMS
from profscope.recording.recorder import Recorder, recorder
from profscope.version import __version__

__all__ = ["Running", "running"]

_SHOWN_KERNELS: Final = 8


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
    hook: CompileHook
    bare: BareLaunches
    sampling: Sampling
    samples: StallSamples
    baseline: Baseline
    keeping: Keeping
    inductor: InductorLaunches
    kept: KeptBinaries
    ahead: AheadOfTime
    job: Job
    scopes: HostScopes
    kineto: Kineto | None
    cpp_kernels_before: CppKernels

    def pause(self) -> None:
        """Record nothing until `resume()`."""
        self.installed.pauses += self.installed.end()

    def resume(self) -> None:
        """Raises SessionError where another session has begun meanwhile."""
        self.installed.begin()

    def so_far(self) -> tuple[dict[str, Any], list[str]]:
        """Metadata and notes beyond what the launches themselves say."""
        sampling, notes = self.sampling.describe(self.recorder.recorded())
        sampler, sampled = self.samples.describe()
        baseline, timed = self.baseline.describe()
        building, left_bare = self.inductor.describe()
        left_bare += self.kept.notes() + self.ahead.notes()
        if ORIGINS.unknown and self.inductor.seen:
            left_bare.append(f"modules of compiled models are not known: {ORIGINS.unknown}")
        undescribed = [
            f"{kernel}: its configuration is not known: {why}"
            for kernel, why in sorted(PROGRAMS.undescribed.items())
            if self.options.matches(kernel)
        ]
        if self.installed.pauses:
            times = "once" if self.installed.pauses == 1 else f"{self.installed.pauses} times"
            notes = [*notes, f"recording was paused {times}; what was launched meanwhile counts nowhere"]
        notes = [
            *left_bare,
            *notes,
            *self.keeping.notes(),
            *sampled,
            *timed,
            *undescribed,
            *self.scopes.notes(),
            *([] if self.kineto is None else self.kineto.notes),
            *self.recorder.notes(),
        ]
        if not self.recorder.seen:
            notes += self._why_empty(said=len(notes) > len(sampled))
        more = {"clock": self.machine.clock(), "bare": PROGRAMS.about_bare()}
        told = self.metadata | sampling | building | sampler | baseline | more
        return told | self.job.describe(), notes

    @property
    def around_changes(self) -> int:
        """How often there was something new of the program around the kernels."""
        return self.scopes.changes + (0 if self.kineto is None else self.kineto.changes)

    def host_clock(self) -> dict[str, Any]:
        """The metadata's entry "host_clock", as it is now, where there is one."""
        clocks = self.machine.host_clocks
        return {} if clocks is None else clocks.describe()

    def _why_empty(self, *, said: bool) -> list[str]:
        """Why there is no launch so far. said: other notes say something."""
        bare = self.recorder.path.bare | self.sampling.passed_over | self.inductor.passed_over
        passed_over = [name for name in self._nearest_first(bare) if not self.options.matches(name)]
        if knobs.runtime.interpret:
            return [
                "Triton's interpreter is on (TRITON_INTERPRET=1): it runs kernels in Python and compiles none"
            ]
        if passed_over:
            kernels = ", ".join(passed_over[:_SHOWN_KERNELS]) + ", ..." * (len(passed_over) > _SHOWN_KERNELS)
            return [f"kernels={self.options.kernels!r} matches none of those that were launched: {kernels}"]
        if bare and not said:
            return [f"only an autotuner launched {', '.join(sorted(bare))}, and its trials run bare"]
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

    Raises SessionError where another one is active, the backend is not there, a sanitizer of Triton's is on
    that cannot stand beside a session, Proton has sampled where this one is to sample, or the spool cannot be
    created.
    """
    _refuse_another()
    cpp_kernels_before = cpp_kernels()
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(backend.select(options.backend))
        metadata = _describe(options, machine.metadata()) | dict(told)
        records = recorder(options, machine, metadata)
        hook = CompileHook(options)
        bare = BareLaunches(options, hook.outside, records.path.listening)
        sampling = Sampling(options, bare, hook.mode, records.path.record)
        gpu = gpu_here(machine) if options.samples else ""
        samples = StallSamples(options, records.path, records.graphs, gpu)
        baseline = Baseline(options, machine.device_type, records.graphs)
        keeping = Keeping(options, bare, hook, records.path, samples, baseline)
        beside = builds_beside(options, hook, machine)
        inductor = InductorLaunches(options, bare, sampling, records.path, beside, keeping.load_others)
        kept = KeptBinaries(options, bare, sampling)
        ahead = AheadOfTime()
        # The first to be installed is the last to go: another thread may have chosen its binary already.
        lanes = records.lanes
        scopes = HostScopes(records.log.__len__, lanes.scopes_of, lanes.launched, lanes.alone)
        ranges = OtherRanges(scopes)
        parts: tuple[_Part, ...] = (
            records, hook, bare, sampling, samples, keeping, inductor, kept, ahead, scopes, ranges
        )  # fmt: skip
        if beside is not None:
            parts = (*parts, beside)
        kineto = _kineto(options, machine)
        if kineto is not None:
            parts = (*parts, kineto)
        installed = _Installed(lambda: _all_installed(parts))
        job = Job()
        stack.enter_context(job.joined())
        records.stop_in_forks()
        stack.callback(installed.end)
        installed.begin()
        yield Running(
            installed,
            options,
            machine,
            metadata,
            records,
            hook,
            bare,
            sampling,
            samples,
            baseline,
            keeping,
            inductor,
            kept,
            ahead,
            job,
            scopes,
            kineto,
            cpp_kernels_before,
        )


def _kineto(options: Options, machine: backend.Backend) -> Kineto | None:
    """What records events, where they are asked for."""
    if not options.events:
        return None
    return Kineto(on_gpu=machine.device_type == "cuda")


def builds_beside(options: Options, hook: CompileHook, machine: backend.Backend) -> Beside | None:
    """What builds binaries of torch.compile beside the program; None where launches wait for theirs."""
    return None if options.wait or machine.device_type == "cpu" else Beside(options, hook, "gpu")


@contextlib.contextmanager
def _all_installed(parts: Sequence[_Part]) -> Iterator[None]:
    _refuse_another()
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(part.installed())
        yield


def _refuse_another() -> None:
    if LaunchPath.is_installed():
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
