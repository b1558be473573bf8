"""The observed launches of a session: bare ones under the hardware's instruments, one at a time.

The dispatcher asks for each launch of a configuration whether it should be observed, from the second launch
on until nothing more is wanted; `evidence/observer.py` then takes the launch with the witness whose turn it
is. Behind these one launch counts by itself (`own_counts.py`), and experiments go before others
(`experimenting.py`). Observed launches have no number: with them and without, the same others are recorded.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from profscope.binaries.spinning import may_wait
from profscope.compat.compiling import recompile
from profscope.compat.kernels import load
from profscope.compat.torch_parts import mapped_files
from profscope.compat.triton_parts import CompiledKernel, driver
from profscope.device.backend import Backend
from profscope.device.graphs import Graphs
from profscope.dispatch.configurations import FIRST_ARGUMENT, STREAM, Binary, Configuration
from profscope.dispatch.experimenting import FEWEST_LAUNCHES, Experimenting
from profscope.dispatch.own_counts import OwnCounts
from profscope.evidence.cupti import EMULATED, EVENTS, HAS_SAMPLED, NOT_NVIDIA, SamplerError, several_ranks
from profscope.evidence.driver import Driver
from profscope.evidence.observer import CAPTURING, Observer, WaitBudget, open_witnesses
from profscope.evidence.reading_ahead import ReadingAhead
from profscope.evidence.subject import (
    ExperimentedKernel,
    SampledLaunch,
    Subject,
    largest,
    of_configurations,
    tensor_bytes,
)
from profscope.options import Options
from profscope.recording.builds import ptx_of
from profscope.recording.diagnostics import number_of_launches, reason
from profscope.recording.recorded_launches import RecordedLaunches

if TYPE_CHECKING:
    from profscope.evidence.tables import Evidence

__all__ = [
    "Observing", "gpu_here", "instruments", "occupied_here", "proton_has_sampled",
]  # fmt: skip

_INSTRUMENTS: Final = ("counts", "samples", "counters")
_MOST_LAUNCHES: Final = 32  # of a configuration that are observed; 16 are enough if no pass is lost
_SHOWN_KERNELS: Final = 8
_MOST_OTHERS: Final = 64  # that were to be observed and could not be
_EXPERIMENTS: Final = "experiments"
_EVENTS_RECORD: Final = "events=True would record their launches, too"
_PROTON: Final = "/libproton.so"
_COUNTERS: Final = "/libnvperf_host.so"  # CUPTI loads it to sample, and not to trace


@dataclass(eq=False)
class _Observed:
    """What is known of a configuration. grid: of its first launch that was to be observed; only launches of
    that grid are, so that what is counted belongs together. integers: arguments of that launch. tensors: the
    most bytes of each. others: launches that could not be observed. binary: loaded while the sampler was
    open, None before that."""

    subject: Subject
    bare: Binary
    grid: tuple[Any, ...]
    integers: tuple[int, ...]
    tensors: dict[str, int]
    others: int = 0
    changed: bool = False
    binary: Binary | None = None


class Observing:
    """Installed for the length of a session.

    graphs: None if there are none. machine: that runs the launches. gpu: its driver, or why it cannot be
    asked. Kernels count by themselves if `evidence=` names records, and where counts are asked for and
    refused.
    """

    def __init__(
        self,
        options: Options,
        launches: RecordedLaunches,
        graphs: Graphs | None,
        machine: Backend,
        gpu: Driver | str,
    ) -> None:
        which, (asked, metrics, seconds) = instruments(options), options.evidence_asked
        self._asked = bool(asked)
        self._metrics = metrics
        self._gpu = None if isinstance(gpu, str) else gpu
        self._budget = WaitBudget(seconds)
        self._launches = launches
        self.graphs = graphs
        self._observed: dict[Configuration, _Observed] = {}
        self._lock = threading.Lock()
        self._tables: tuple[tuple[int, ...], Evidence] | None = None  # of so many results
        self._counts_asked, self._records_asked = "counts" in asked, "records" in asked
        occupied = occupied_here(options)
        self._why = (gpu if isinstance(gpu, str) else occupied) if which else ""
        self._observer = self._opened(which) if which and not self._why else None
        self._ahead = ReadingAhead() if self._gpu is not None else None
        self._own = None
        if self._gpu is not None and (self._counts_asked or self._records_asked):
            self._own = OwnCounts(self._gpu, self._budget)
        self._no_experiments, self._experimenting = "", None
        if _EXPERIMENTS in asked:
            on_gpu = machine.emulated is None
            unknown = gpu if on_gpu and isinstance(gpu, str) else ""
            self._no_experiments = unknown or (_EVENTS_RECORD if options.events else occupied)
            if not self._no_experiments:
                self._experimenting = Experimenting(machine, self._gpu if on_gpu else None, self._budget)
        self._pid = os.getpid()

    def _opened(self, which: Sequence[str]) -> Observer:
        """Of these witnesses, without samples if Proton has sampled."""
        assert self._gpu is not None
        proton = proton_has_sampled() if "samples" in which else ""
        own = [each for each in which if not proton or each != "samples"]
        observer = Observer(self._gpu, open_witnesses(own, self._metrics, self._reload), self._budget)
        if proton:
            observer.turn_off("samples", proton)
        return observer

    @property
    def observes(self) -> bool:
        """Whether there is anything to do with bare launches."""
        return self.has_instruments or self._experimenting is not None

    @property
    def has_instruments(self) -> bool:
        """Whether the hardware, or the kernel by itself, counts what launches execute."""
        return self._observer is not None or self._own is not None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement; the hardware is opened when it is first needed."""
        try:
            yield
        finally:
            self._release()
            with self._lock:
                for observed in self._observed.values():
                    observed.binary = None

    def _release(self) -> None:
        """Give the hardware back until the next launch that is observed."""
        if self._observer is not None:
            self._observer.release()

    def met(self, kernel: CompiledKernel) -> None:
        """A kernel is about to be launched for the first time.

        Once one of the program's kernels may wait for another one, nothing is observed any more: while the
        observer waits for an idle GPU, CUPTI may keep the launch back that the kernel waits for.
        """
        if self._observer is not None and may_wait(ptx_of(kernel)):
            self._observer.end(f"{kernel.name} may wait for what another kernel writes")

    def close(self) -> None:
        """The session has ended."""
        for part in (self._own, self._experimenting, self._observer, self._ahead):
            if part is not None:
                part.close()
        if self._gpu is not None and os.getpid() == self._pid:
            self._gpu.close()

    def is_done(self, configuration: Configuration) -> bool:
        """Whether no launch of the configuration need be observed any more."""
        return (
            self._is_observed(configuration)
            and self._is_counted(configuration)
            and self._is_experimented(configuration)
        )

    def _is_observed(self, configuration: Configuration) -> bool:
        """Whether the hardware's instruments need none."""
        if self._observer is None:
            return True
        observed = self._observed.get(configuration)
        if observed is None:
            return self._observer.is_over
        return (
            self._missed(observed) >= _MOST_OTHERS
            or sum(self._observer.launches.get(observed.subject, Counter()).values()) >= _MOST_LAUNCHES
            or not self._observer.wants(observed.subject)
        )

    def _is_counted(self, configuration: Configuration) -> bool:
        """Whether it need not count by itself."""
        if self._own is None or not (self._records_asked or self._counts_refused):
            return True
        observed = self._observed.get(configuration)
        return observed is not None and (
            observed.others >= _MOST_OTHERS or self._own.is_done(observed.subject)
        )

    def _is_experimented(self, configuration: Configuration) -> bool:
        """Whether it needs no experiments."""
        return self._experimenting is None or self._experimenting.is_done(configuration)

    @property
    def _counts_refused(self) -> str:
        """Why the hardware's instruments count nothing that is asked for; "" if they do."""
        if not self._counts_asked:
            return ""
        return self._why if self._observer is None else self._observer.refused("counts")

    def wants(self, configuration: Configuration) -> bool:
        """Whether the next launch of a configuration that is not done should be observed.

        While a CUDA graph is being captured none is: to wait for the GPU would break the capture.
        """
        if self.graphs is not None and self.graphs.capturing:
            for part in (self._observer, self._experimenting):
                if part is not None:
                    part.skip(CAPTURING)
            return False
        observed = self._observed.get(configuration)
        if observed is None or self._observer is None or self._is_observed(configuration):
            return True
        return not self._observer.puts_off(observed.subject)

    def launch(self, configuration: Configuration, bare: Binary, arguments: tuple[Any, ...]) -> bool:
        """Launch the bare binary under a witness, have it count by itself, or time it for experiments; False
        if that cannot be, and then the program's launch is still to come."""
        with self._lock:
            observed = self._observed.get(configuration) or self._begin(configuration, bare, arguments)
        if self._is_observed(configuration) and self._is_counted(configuration):
            own = self._experimenting
            if own is None or not own.is_due(configuration, observed.subject):
                return False
            return own.launch(configuration, bare, arguments, self._release)
        with self._lock:
            if observed.grid != arguments[:STREAM]:
                observed.others += 1
                return False
            observed.tensors = largest(observed.tensors, _tensors(bare, arguments))
        observed.changed |= observed.integers != _integers(arguments)
        if not self._is_observed(configuration):
            assert self._observer is not None

            def run() -> Any:
                return (observed.binary or bare).launch(*arguments)

            return self._observer.observe(observed.subject, arguments[STREAM], run)
        assert self._own is not None
        return self._own.launch(observed.subject, bare, arguments)

    def _begin(self, configuration: Configuration, bare: Binary, arguments: tuple[Any, ...]) -> _Observed:
        build = self._launches.describe(bare.kernel)
        grid, kernel = arguments[:STREAM], bare.kernel
        subject = Subject(
            kernel=configuration.name,
            key="" if build is None else build.key,
            shape=grid,
            function=kernel.name,
            cubin=kernel.kernel,
            ptx=ptx_of(kernel),
        )
        observed = _Observed(subject, bare, grid, _integers(arguments), _tensors(bare, arguments))
        self._observed[configuration] = observed
        if self._ahead is not None:
            self._ahead.read(subject.cubin, subject.ptx)
        return observed

    def _reload(self, subject: Subject) -> str:
        """See `evidence.samples.Samples`."""
        observed = next(each for each in list(self._observed.values()) if each.subject == subject)
        try:
            kernel = recompile(observed.bare.kernel)
            observed.binary = Binary.bare(kernel, load(kernel))
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            return reason(error)
        return ""

    def samples(self) -> list[SampledLaunch]:
        """Of the launches so far."""
        return [] if self._observer is None else self._observer.samples()

    def experiments(self) -> list[ExperimentedKernel]:
        """So far."""
        return [] if self._experimenting is None else self._experimenting.results()

    def tables(self) -> Evidence | None:
        """What there is so far; None if that is nothing."""
        observer, own = self._observer, self._own
        counts = [] if observer is None else observer.counts()
        counts += [] if own is None else own.results()
        others = ([], []) if observer is None else (observer.samples(), observer.counters())
        experiments = self.experiments()
        numbers = tuple(len(each) for each in (counts, *others, experiments))
        if any(numbers) and (self._tables is None or self._tables[0] != numbers):
            # Here, since pandas takes as long to import as all that a session needs before its first launch.
            from profscope.evidence.tables import evidence

            if self._ahead is not None:
                self._ahead.wait()
            self._tables = numbers, evidence(counts, *others, experiments, self._metrics)
        return None if self._tables is None else self._tables[1]

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "evidence" if the session asks for evidence, and notes.

        kernels: by name, launches that ran bare under each witness, and those that were made for experiments;
        added_s: how long the program has waited for them; not_measured: what is missing, and why; tensors: of
        each configuration, the most bytes of each tensor that it was launched with.
        """
        if not self._asked:
            return {}, []
        kernels: dict[str, Counter[str]] = {}
        for subject, launches in [] if self._observer is None else list(self._observer.launches.items()):
            kernels.setdefault(subject.kernel, Counter()).update(launches)
        for subject in [] if self._own is None else self._own.launches:
            kernels.setdefault(subject.kernel, Counter())["records"] += 1
        for name, made in ({} if self._experimenting is None else self._experimenting.launches).items():
            kernels.setdefault(name, Counter())[_EXPERIMENTS] += made
        by_kernel = {name: dict(launches) for name, launches in sorted(kernels.items()) if launches}
        missing = [*self._not_measured(), *self._changes(), *self._too_few()]
        entry = {"kernels": by_kernel, "added_s": round(self._budget.spent_s, 3), "not_measured": missing}
        entry["tensors"] = of_configurations(
            {"kernel": each.subject.kernel, "key": each.subject.key, "bytes": each.tensors}
            for each in list(self._observed.values())
        )
        notes = [f"{name}: {_ran_bare(launches)}" for name, launches in by_kernel.items()]
        is_told = any({*launches} - {_EXPERIMENTS} for launches in by_kernel.values())
        is_told = is_told or bool(self._metrics)  # somebody named them, and waits for them
        return {"evidence": entry}, [*notes, *(each for each in missing if is_told or each != self._why)]

    def _not_measured(self) -> Iterator[str]:
        """What is missing, and what has taken its place."""
        if self._observer is not None:
            yield from self._observer.notes()
        elif self._why:
            yield self._why
        if self._own is not None:
            if self._counts_refused and self._own.launches:
                yield "kernels counted their instructions and sectors by themselves instead"
            yield from self._own.notes()
        if self._no_experiments:
            yield f"no experiments: {self._no_experiments}"
        if self._experimenting is not None:
            yield from self._experimenting.notes()

    def _changes(self) -> Iterator[str]:
        for observed in list(self._observed.values()):
            name = observed.subject.kernel
            if observed.changed:
                yield (
                    f"{name}: integer arguments changed between its observed launches: its counters may not "
                    "belong together"
                )
            missed = self._missed(observed)
            if missed >= _MOST_OTHERS:
                yield f"{name}: evidence is incomplete: {missed} launches could not be observed"

    def _too_few(self) -> Iterator[str]:
        """The configurations whose launches have not been enough."""
        kernels: dict[str, dict[str, None]] = {}
        for configuration, observed in list(self._observed.items()):
            for lacking in [] if self.is_done(configuration) else self._lacks(configuration, observed):
                kernels.setdefault(lacking, {})[observed.subject.kernel] = None
        for lacking, names in sorted(kernels.items()):
            more = ", ..." * (len(names) > _SHOWN_KERNELS)
            shown = ", ".join(list(names)[:_SHOWN_KERNELS]) + more
            needed = f" ({FEWEST_LAUNCHES} are needed)" if lacking == _EXPERIMENTS else ""
            yield f"no {lacking} of a configuration that had too few launches{needed}: {shown}"

    def _lacks(self, configuration: Configuration, observed: _Observed) -> list[str]:
        found = [] if self._observer is None else self._observer.lacks(observed.subject)
        found += [] if self._is_counted(configuration) else ["records"]
        return found + ([] if self._is_experimented(configuration) else [_EXPERIMENTS])

    def _missed(self, observed: _Observed) -> int:
        return observed.others + (0 if self._observer is None else self._observer.missed[observed.subject])


def _ran_bare(launches: Counter[str] | dict[str, int]) -> str:
    """Of a kernel's launches by witness."""
    own, made = launches.get("records", 0), launches.get(_EXPERIMENTS, 0)
    observed = sum(launches.values()) - own - made
    told = [f"{observed} launches ran bare under the hardware's instruments, unrecorded"] * bool(observed)
    told += ["one counted by itself"] * bool(own)
    told += [f"{number_of_launches(made)} for experiments, unrecorded"] * bool(made)
    return ", and ".join(told)


def _integers(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(each for each in arguments[FIRST_ARGUMENT:] if isinstance(each, int))


def _tensors(bare: Binary, arguments: tuple[Any, ...]) -> dict[str, int]:
    return tensor_bytes(bare.kernel.src.signature, arguments[FIRST_ARGUMENT:])


def instruments(options: Options) -> list[str]:
    """The witnesses that observe a bare launch, of those that a session asks for."""
    return [each for each in options.evidence_asked.witnesses if each in _INSTRUMENTS]


def gpu_here(machine: Backend, options: Options) -> Driver | str:
    """The NVIDIA GPU of a session that asks for evidence; else why it has none, "" if it asks for none."""
    if not options.evidence_asked.witnesses:
        return ""
    if machine.device_type != "cuda":
        return EMULATED
    if driver.active.get_current_target().backend != "cuda":
        return NOT_NVIDIA
    try:
        return Driver()
    except SamplerError as error:
        return str(error)


def occupied_here(options: Options) -> str:
    """Why no launch of a session may be observed, whatever the GPU; "" if it may."""
    return EVENTS if options.events else several_ranks(os.environ)


def proton_has_sampled(maps: str | None = None) -> str:
    """What to say if Proton has sampled in this process, else "". maps: what /proc/self/maps says."""
    maps = mapped_files() if maps is None else maps
    if _PROTON in maps and _COUNTERS in maps and os.getpid() not in HAS_SAMPLED:
        return (
            "Proton's pcsampling has been on in this process, and CUPTI may end a process in which two "
            "libraries open the GPU's sampler; use one of the two in a process"
        )
    return ""
