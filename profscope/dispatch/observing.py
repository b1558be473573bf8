"""The observed launches of a session: bare ones under the hardware's instruments, one at a time; on the
emulator what that counts in recorded ones.

The dispatcher asks for each launch of a configuration whether it should be observed, from the second launch
on until nothing more is wanted; `evidence/observer.py` then takes the launch with the witness whose turn it
is. Observed launches have no number: with them and without, the same others are recorded.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from profscope.binaries.spinning import may_wait
from profscope.compat.compiling import recompile
from profscope.compat.kernels import load
from profscope.compat.programs import manifest_of_binary
from profscope.compat.torch_parts import mapped_files
from profscope.compat.triton_parts import CompiledKernel, driver
from profscope.device.backend import Backend
from profscope.device.graphs import Graphs
from profscope.dispatch.configurations import Binary, Configuration, Configurations
from profscope.dispatch.own_counts import OwnCounts
from profscope.evidence.cupti import HAS_SAMPLED, SamplerError
from profscope.evidence.driver import Driver
from profscope.evidence.observer import CAPTURING, Observer, open_witnesses
from profscope.evidence.obstacles import EMULATED, EVENTS, NOT_NVIDIA, several_ranks
from profscope.evidence.subject import SampledLaunch, Subject, largest, of_configurations, tensor_bytes
from profscope.instrument_passes.dialect import PROBED
from profscope.instrument_passes.manifest import Manifest
from profscope.options import Options
from profscope.recording.builds import ptx_of
from profscope.recording.diagnostics import reason
from profscope.recording.recorded_launches import RecordedLaunches

if TYPE_CHECKING:
    from profscope.emulator.device import Device
    from profscope.emulator.machine.counts import Totals
    from profscope.emulator.program import Program
    from profscope.evidence.tables import Evidence

__all__ = [
    "STREAM", "EmulatedCounts", "Observing", "driver_here", "instruments", "machine_here",
    "proton_has_sampled",
]  # fmt: skip

STREAM: Final = 3  # among the arguments of Triton's launchers
_INSTRUMENTS: Final = ("counts", "samples", "counters")
_FIRST_ARGUMENT: Final = 9  # of the kernel's own
_MOST_LAUNCHES: Final = 32  # of a configuration that are observed; 16 are enough if no pass is lost
_SHOWN_KERNELS: Final = 8
_MOST_OTHERS: Final = 64  # that were to be observed and could not be


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

    machine: the GPU, or why nothing can be observed. graphs: None if there are none. driver: of a GPU whose
    kernels can count by themselves, None if there is none. They do if `evidence=` names records, and where
    counts are asked for and refused.
    """

    def __init__(
        self,
        options: Options,
        launches: RecordedLaunches,
        graphs: Graphs | None,
        machine: Driver | str,
        driver: Driver | None = None,
    ) -> None:
        which, (asked, metrics, seconds) = instruments(options), options.evidence_asked
        self._asked = bool(which) or "records" in asked
        self._metrics = metrics
        self._why = machine if isinstance(machine, str) else ""
        self._launches = launches
        self.graphs = graphs
        self._observed: dict[Configuration, _Observed] = {}
        self._lock = threading.Lock()
        self._tables: tuple[tuple[int, ...], Evidence] | None = None  # of so many results
        self._observer: Observer | None = None
        self._counts_asked, self._records_asked = "counts" in asked, "records" in asked
        self._own = None
        if driver is not None and (self._counts_asked or self._records_asked):
            self._own = OwnCounts(driver, seconds)
        if not isinstance(machine, str) and which:
            proton = proton_has_sampled() if "samples" in which else ""
            own = [each for each in which if not proton or each != "samples"]
            self._observer = Observer(machine, open_witnesses(own, metrics, self._reload), seconds)
            if proton:
                self._observer.turn_off("samples", proton)

    @property
    def observes(self) -> bool:
        """Whether there is anything to observe with."""
        return self._observer is not None or self._own is not None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement; the hardware is opened when it is first needed."""
        try:
            yield
        finally:
            if self._observer is not None:
                self._observer.release()
            with self._lock:
                for observed in self._observed.values():
                    observed.binary = None

    def met(self, kernel: CompiledKernel) -> None:
        """A kernel is about to be launched for the first time.

        Once one of the program's kernels may wait for another one, nothing is observed any more: while the
        observer waits for an idle GPU, CUPTI may keep the launch back that the kernel waits for.
        """
        if self._observer is not None and may_wait(ptx_of(kernel)):
            self._observer.end(f"{kernel.name} may wait for what another kernel writes")

    def close(self) -> None:
        """The session has ended."""
        if self._own is not None:
            self._own.close()
        if self._observer is not None:
            self._observer.close()

    def is_done(self, configuration: Configuration) -> bool:
        """Whether no launch of the configuration need be observed any more."""
        return self._is_observed(configuration) and self._is_counted(configuration)

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
            if self._observer is not None:
                self._observer.skip(CAPTURING)
            return False
        observed = self._observed.get(configuration)
        if observed is None or self._observer is None or self._is_observed(configuration):
            return True
        return not self._observer.puts_off(observed.subject)

    def launch(self, configuration: Configuration, bare: Binary, arguments: tuple[Any, ...]) -> bool:
        """Launch the bare binary under a witness, or have it count by itself; False if that cannot be, and
        then nothing was launched."""
        with self._lock:
            observed = self._observed.get(configuration) or self._begin(configuration, bare, arguments)
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

    def tables(self) -> Evidence | None:
        """What there is so far; None if that is nothing."""
        from profscope.evidence.tables import evidence  # here, since pandas takes its time

        observer, own = self._observer, self._own
        counts = [] if observer is None else observer.counts()
        counts += [] if own is None else own.results()
        others = ([], []) if observer is None else (observer.samples(), observer.counters())
        numbers = tuple(len(each) for each in (counts, *others))
        if any(numbers) and (self._tables is None or self._tables[0] != numbers):
            self._tables = numbers, evidence(counts, *others, self._metrics)
        return None if self._tables is None else self._tables[1]

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "evidence" if the session asks the GPU for evidence, and notes.

        kernels: by name, launches that ran bare under each witness; added_s: how long the program has waited
        for them; not_measured: what is missing, and why; tensors: of each configuration, the most bytes
        of each tensor that it was launched with.
        """
        if not self._asked:
            return {}, []
        kernels: dict[str, Counter[str]] = {}
        for subject, launches in [] if self._observer is None else list(self._observer.launches.items()):
            kernels.setdefault(subject.kernel, Counter()).update(launches)
        for subject in [] if self._own is None else self._own.launches:
            kernels.setdefault(subject.kernel, Counter())["records"] += 1
        by_kernel = {name: dict(launches) for name, launches in sorted(kernels.items()) if launches}
        missing = [*self._not_measured(), *self._changes(), *self._too_few()]
        added_s = sum(each.added_s for each in (self._observer, self._own) if each is not None)
        entry = {"kernels": by_kernel, "added_s": round(added_s, 3), "not_measured": missing}
        entry["tensors"] = of_configurations(
            {"kernel": each.subject.kernel, "key": each.subject.key, "bytes": each.tensors}
            for each in list(self._observed.values())
        )
        notes = [f"{name}: {_ran_bare(launches)}" for name, launches in by_kernel.items()]
        return {"evidence": entry}, [*notes, *(missing if by_kernel or not self._why else ())]

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
            yield f"no {lacking} of a configuration that had too few launches: {shown}"

    def _lacks(self, configuration: Configuration, observed: _Observed) -> list[str]:
        found = [] if self._observer is None else self._observer.lacks(observed.subject)
        return found if self._is_counted(configuration) else [*found, "records"]

    def _missed(self, observed: _Observed) -> int:
        return observed.others + (0 if self._observer is None else self._observer.missed[observed.subject])


class EmulatedCounts:
    """Installed for the length of a session on the emulator. device: that runs its launches."""

    def __init__(self, device: Device, configurations: Configurations) -> None:
        self._device = device
        self._configurations = configurations
        self._counts: dict[Program, Totals] = {}
        self._tables: tuple[int, Evidence] | None = None  # of so many launches

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement: launches with records are counted."""
        before, self._device.counts = self._device.counts, self._counts
        try:
            yield
        finally:
            self._device.counts = before

    def tables(self) -> Evidence | None:
        """Of the launches so far; None if there are none."""
        from profscope.evidence.emulated import CountedKernel, emulated_evidence  # pandas takes its time

        counted = self._counted()
        launches = sum(totals.launches for _, _, totals in counted)
        if launches and (self._tables is None or self._tables[0] != launches):
            kernels = [
                CountedKernel(
                    kernel.name, key, kernel.asm["ptx"], totals, _is_probed(manifest_of_binary(kernel))
                )
                for kernel, key, totals in counted
            ]
            self._tables = launches, emulated_evidence(kernels)
        return None if self._tables is None else self._tables[1]

    def tensors(self) -> list[dict[str, Any]]:
        """As the metadata's entry "evidence" has them; see `Observing.describe`."""
        return of_configurations(
            {"kernel": kernel.name, "key": key, "bytes": totals.tensors}
            for kernel, key, totals in self._counted()
        )

    def launch_ns(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By kernel and key what a recorded launch takes, and would take without the instructions of records.
        One that is probed is left out: threads exchange the values, too."""
        sums: dict[tuple[str, str], Counter[str]] = {}
        for kernel, key, totals in self._counted():
            if not _is_probed(manifest_of_binary(kernel)):
                recorded, bare = totals.cycles
                own = sums.setdefault((kernel.name, key), Counter())
                own.update(launches=totals.launches, recorded=recorded, bare=bare)
        ms = self._device.model.milliseconds
        return {
            key: (1e6 * ms(own["recorded"]) / own["launches"], 1e6 * ms(own["bare"]) / own["launches"])
            for key, own in sums.items()
        }

    def _counted(self) -> list[tuple[CompiledKernel, str, Totals]]:
        """Of each configuration that has been recorded its binary, its key and its counts."""
        counts = dict(self._counts)  # another thread may launch meanwhile
        recorded = [each.recorded for each in self._configurations.all() if each.recorded is not None]
        return [
            (kernel, "" if build is None else build.key, totals)
            for kernel, build in ((each.kernel, each.build) for each in recorded)
            if (totals := counts.get(kernel.function)) is not None
        ]


def _is_probed(manifest: Manifest) -> bool:
    """Whether the binary looks into tensors, as `value-probe` does."""
    names = {
        column.name for section in manifest.sections for frame in section.frames for column in frame.columns
    }
    return set(PROBED) <= names


def _ran_bare(launches: Counter[str] | dict[str, int]) -> str:
    """Of a kernel's launches by witness."""
    own = launches.get("records", 0)
    observed = sum(launches.values()) - own
    told = [f"{observed} launches ran bare under the hardware's instruments, unrecorded"] * bool(observed)
    return ", and ".join([*told, *["one counted by itself"] * bool(own)])


def _integers(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(each for each in arguments[_FIRST_ARGUMENT:] if isinstance(each, int))


def _tensors(bare: Binary, arguments: tuple[Any, ...]) -> dict[str, int]:
    return tensor_bytes(bare.kernel.src.signature, arguments[_FIRST_ARGUMENT:])


def instruments(options: Options) -> list[str]:
    """The witnesses that observe a bare launch, of those that a session asks for."""
    return [each for each in options.evidence_asked.witnesses if each in _INSTRUMENTS]


def driver_here(machine: Backend) -> Driver | None:
    """That of a GPU whose kernels can count by themselves."""
    if machine.device_type != "cuda" or driver.active.get_current_target().backend != "cuda":
        return None
    try:
        return Driver()
    except SamplerError:  # which `machine_here` tells
        return None


def machine_here(machine: Backend, options: Options) -> Driver | str:
    """The GPU of a session that asks for evidence from it, or why nothing can be observed."""
    if not instruments(options):
        return ""
    if machine.device_type != "cuda":
        return EMULATED
    if driver.active.get_current_target().backend != "cuda":
        return NOT_NVIDIA
    if options.events:
        return EVENTS
    if why := several_ranks(os.environ):
        return why
    try:
        return Driver()
    except SamplerError as error:
        return str(error)


def proton_has_sampled(maps: str | None = None) -> str:
    """What to say if Proton has sampled in this process, else "". maps: what /proc/self/maps says."""
    maps = mapped_files() if maps is None else maps
    if _PROTON in maps and _COUNTERS in maps and os.getpid() not in HAS_SAMPLED:
        return (
            "Proton's pcsampling has been on in this process, and CUPTI may end a process in which two "
            "libraries open the GPU's sampler; use one of the two in a process"
        )
    return ""
