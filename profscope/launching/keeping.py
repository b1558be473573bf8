"""Launches by another binary than the one that a session has compiled for most of them.

Beside a binary stand others, of the same source and options: where it keeps sums one that keeps spans, and
where launches are sampled or timed the bare one. Who launches the first, by whatever way (the function, the
binary itself, torch.compile), asks it for its launcher; that launches another in its place when the role of
the launch says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from operator import length_hint
from typing import Any, Final

from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.decoding.about import kept_notes
from profscope.launching.bare import BareLaunches
from profscope.launching.baseline import Baseline, Timed
from profscope.launching.beside import Made
from profscope.launching.direct import direct_call
from profscope.launching.hook import CompileHook
from profscope.launching.null_builds import SHIFTS, NullBuilds
from profscope.launching.other_binaries import (
    ITS_BARE,
    ITS_NULL,
    ITS_SPANS,
    RECORDED,
    SAMPLED,
    Binaries,
    OtherBinaries,
)
from profscope.launching.roles import (
    MOST_LAUNCHES,
    Role,
    kept_by,
    numbers_sampled,
    numbers_timed,
    numbers_with_spans,
    role_of,
    turn_of_null,
)
from profscope.launching.stall_samples import Sampled, StallSamples
from profscope.options import Options
from profscope.recording.direct_launches import OthersTurns
from profscope.recording.launch_path import LaunchPath
from profscope.recording.messages import one_line
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS

__all__ = ["Keeping"]

Launcher = Callable[..., Any]
_LAUNCHER: Final = "run"


class _Run:
    """In place of CompiledKernel.run, the property that is a binary's launcher: a binary's own attribute of
    that name goes before it, and costs less. begin: gives a binary one."""

    def __init__(self, begin: Callable[[CompiledKernel], Launcher]) -> None:
        self._begin = begin

    def __get__(self, kernel: CompiledKernel | None, kind: type) -> Any:
        return self if kernel is None else self._begin(kernel)


class _Variant:
    """The launches of what the session compiled of one source with the same options: threads that launch it
    for the first time at once have a binary each. all_spans: it keeps spans itself. samples, timed: what has
    been sampled and timed of it. records: it can; else it has numbers only where it is sampled."""

    def __init__(
        self, name: str, others: OtherBinaries, samples: Sampled, timed: Timed, keeps: str, *, records: bool
    ) -> None:
        self.name = name
        self.others = others
        self.samples = samples
        self.timed = timed
        self.numbers = iter(range(MOST_LAUNCHES))  # next() is one step of C's: threads need no lock
        self.all_spans = keeps == "spans"
        self.records = records
        self.lock = threading.Lock()
        self.turns = count()  # launches that spans_every= has chosen
        self.passed_over = 0  # of these, those for whose spans there was no room
        self.replaced = 0  # by what keeps spans

    @property
    def launches(self) -> int:
        """How many are recorded that have a number."""
        return MOST_LAUNCHES - length_hint(self.numbers) - self.samples.bare - self.timed.bare

    @property
    def spans(self) -> int:
        """How many of those keep spans."""
        return self.launches if self.all_spans else self.replaced


class Keeping:
    """Installed for the length of a session, inside the compile hook; does nothing where all launches keep
    spans and none is sampled or timed. path: of the launches, which it ties to the binary that ran:
    Triton's launch hooks would cost each launch a microsecond more."""

    def __init__(
        self,
        options: Options,
        bare: BareLaunches,
        hook: CompileHook,
        path: LaunchPath,
        samples: StallSamples,
        baseline: Baseline,
    ) -> None:
        self._options = options
        self._samples = samples
        self._baseline = baseline
        self.null_builds = NullBuilds()
        self._bare = bare
        self._hook = hook
        self._path = path
        self._run: Callable[[CompiledKernel], Launcher] = CompiledKernel.run.fget
        self._binaries = Binaries(bare, hook, self._run, lambda: self._open)
        self._lock = threading.Lock()
        self._variants: dict[tuple[str, int], _Variant] = {}  # by Triton's hash and device
        self._launched: list[CompiledKernel] = []
        self._open = False

    def describe(
        self, left_out: Mapping[str, int], spans_left_out: Mapping[str, int]
    ) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "keeping" where some launches keep sums, and notes.

        It counts launches where they begin. Trials, and what is captured into CUDA graphs, count nowhere, and
        neither do those left out: by kernel, launches that were not recorded, and how many of them were to
        keep spans.
        """
        with self._lock:
            variants = list(self._variants.values())
        recording = [variant for variant in variants if variant.records]
        failed = [note for each in variants for note in each.others.notes(each.name)]
        if self._options.keep == "spans":
            return {}, list(dict.fromkeys(failed))
        spans, launches = Counter[str](), Counter[str]()
        for variant in recording:
            spans[variant.name] += variant.spans
            launches[variant.name] += variant.launches
        for counts, without in ((launches, left_out), (spans, spans_left_out)):
            counts.subtract({name: count for name, count in without.items() if name in counts})
        kernels = {
            name: {"spans": spans[name], "sums": count - spans[name]}
            for name, count in sorted(launches.items())
            if count
        }
        entry = {"keep": self._options.keep, "spans_every": self._options.spans_every, "kernels": kernels}
        bounded = self._path.spans_notes(sum(variant.passed_over for variant in recording))
        return {"keeping": entry}, list(dict.fromkeys([*kept_notes(kernels), *bounded, *failed]))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        if self._options.keep == "spans" and not self._options.samples and not self._options.baseline:
            yield
            return
        self._open = True
        try:
            with patched(CompiledKernel, "run", lambda run: _Run(self._begin)):
                yield
        finally:
            self.null_builds.end()
            with self._lock:
                self._open = False
                for variant in self._variants.values():
                    variant.others.close()
                for kernel in self._launched:
                    del vars(kernel)[_LAUNCHER]
                self._launched.clear()

    def _begin(self, kernel: CompiledKernel) -> Launcher:
        """What to launch a binary with; the session asks once for each, for it stays with the binary."""
        run = self._run(kernel)  # loads it
        with self._lock:
            if not self._open:
                return run
            if _LAUNCHER not in vars(kernel):  # another thread may have been quicker
                vars(kernel)[_LAUNCHER] = self._launcher(kernel)
                self._launched.append(kernel)
            return vars(kernel)[_LAUNCHER]  # type: ignore[no-any-return]

    def _launcher(self, kernel: CompiledKernel) -> Launcher:
        program = PROGRAMS.program(kernel)
        ours = program is not None and program.mode == self._hook.mode and not program.unreadable
        records = program is not None and ours and not program.manifest.failure
        if program is None or not (records or (ours and self._options.samples)):
            return self._plain(kernel)
        key = kernel.hash, driver.active.get_current_device()
        if key not in self._variants:
            samples = self._samples.variant(kernel.name)
            times = self._baseline.variant(kernel.name)
            keeps, others = program.manifest.keeps, OtherBinaries(self._binaries)
            self._variants[key] = _Variant(kernel.name, others, samples, times, keeps, records=records)
        variant = self._variants[key]
        loaded = PROGRAMS.of(kernel.function) or program  # with its build
        numbers = variant.numbers
        sampled = numbers_sampled(self._options)
        timed = numbers_timed(self._options) if records else range(0)
        due = numbers_with_spans(self._options) if records and not variant.all_spans else range(0)
        apart, thread, capturing = self._bare.apart, self._bare.thread, self._path.capturing

        def launch_spans(*args: Any) -> Any:
            return self._launch(kernel, self._spans_of(variant, kernel), *args)

        if not sampled and not timed:
            every, rest = (due.step, 0) if due else (1, 1)  # quicker than to look the number up in a range
            turns = OthersTurns(apart, thread, numbers, every, rest, launch_spans)
            return self._path.direct(kernel._run, loaded, direct_call(kernel), turns)

        plain = self._plain(kernel)

        def launch_in_turn(*args: Any) -> Any:
            stream = args[3]
            if (apart and thread.trial) or (stream and capturing()):
                return plain(*args)
            number = next(numbers)
            if number in sampled:
                return self._launch_sampled(variant, kernel, number, args)
            if (number + 1 in timed or number in timed or number - 2 in timed) and self._baseline.can():
                return self._launch_timed(variant, kernel, number, args)
            return launch_spans(*args) if number in due else plain(*args)

        return launch_in_turn

    def _plain(self, kernel: CompiledKernel) -> Launcher:
        """What launches this binary and no other."""
        if self._options.keep == "spans":  # Triton's launch hooks say what was launched
            return kernel._run  # type: ignore[no-any-return]
        tie = self._path.tie

        def launch(*args: Any) -> Any:
            result = kernel._run(*args)
            tie(kernel.function, kernel.name)
            return result

        return launch

    def _leave(self, kernel: CompiledKernel) -> None:
        """Launch this binary and no other from now on."""
        with self._lock:
            if self._open:
                vars(kernel)[_LAUNCHER] = self._plain(kernel)

    def _launch_sampled(
        self, variant: _Variant, kernel: CompiledKernel, number: int, args: tuple[Any, ...]
    ) -> Any:
        """Launch under the sampler, or as without samples= where that cannot be."""
        options = self._options
        last = number == numbers_sampled(options)[-1]
        if options.keep == "spans" and last and not options.baseline:
            self._leave(kernel)  # the others need not come by here
        can, role = self._samples.can(variant.name), role_of(options, number)
        if can and role is Role.SAMPLED:
            bare = variant.others.for_sampler(kernel, SAMPLED)
            if bare is not None:
                run = partial(self._launch, kernel, bare, *args)
                return self._samples.launch(variant.samples, bare, "bare", args[3], run)
        binary = self._recording(variant, kernel, number)
        if can and role is Role.SAMPLED_RECORDED and variant.records:
            recorded = variant.others.for_sampler(binary, RECORDED)
            if recorded is not None:
                run = partial(self._launch, kernel, recorded, *args)
                return self._samples.launch(variant.samples, recorded, _keeps(recorded), args[3], run)
        return self._launch(kernel, binary, *args)

    def _launch_timed(
        self, variant: _Variant, kernel: CompiledKernel, number: int, args: tuple[Any, ...]
    ) -> Any:
        """Launch the bare binary, timed or before one that is, or what records, timed. Where there is no bare
        one, launch as without baseline=."""
        bare, role = variant.others.of(kernel, ITS_BARE), role_of(self._options, number)
        if bare is not None and role in (Role.BARE, Role.TIMED, Role.NULL):
            binary, shift = self._null_of(variant, bare, number)
            self.null_builds.begin(bare)
            run = partial(self._launch, kernel, binary, *args)
            if role is Role.BARE:
                return self._baseline.launch_untimed(variant.timed, shift, run)
            return self._baseline.launch(variant.timed, bare, number, shift, args[3], run)
        binary = self._recording(variant, kernel, number)
        run = partial(self._launch, kernel, binary, *args)
        if bare is None:
            return run()
        return self._baseline.launch(variant.timed, binary, number, _keeps(binary), args[3], run)

    def _null_of(self, variant: _Variant, bare: CompiledKernel, number: int) -> tuple[CompiledKernel, int]:
        """What runs bare in this turn: a null build, loaded, and by how much it is shifted; or the bare one
        and 0, also where the null build is not there, or not yet."""
        turn = turn_of_null(self._options, number)
        if turn is None:
            return bare, 0
        shift = SHIFTS[turn % len(SHIFTS)]
        try:
            null = self.null_builds.ready(bare, shift)
            if null is not None:
                self._run(null)
                return null, shift
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            variant.others.why[ITS_NULL] = one_line(error)
        return bare, 0

    def _launch(
        self, kernel: CompiledKernel, other: CompiledKernel, x: int, y: int, z: int, stream: int,
        function: Any, packed: Any, about: Any, *others: Any,
    ) -> Any:  # fmt: skip
        """Launch another binary in place of a kernel's, perhaps itself.

        about: what Triton tells the launch hooks; others: these, and the kernel's arguments.
        """
        if other is kernel:
            result = kernel._run(x, y, z, stream, function, packed, about, *others)
        else:
            if about is not None:
                about.data["function"] = other.function
            run = self._run(other)
            arguments = x, y, z, stream, other.function, other.packed_metadata, about, *others
            keeps_spans = other is vars(kernel).get(ITS_SPANS)
            result = self._path.keeping_spans(partial(run, *arguments)) if keeps_spans else run(*arguments)
        self._path.tie(other.function, other.name)  # where only some launches are recorded no hook has
        return result

    def _recording(self, variant: _Variant, kernel: CompiledKernel, number: int) -> CompiledKernel:
        """The binary that keeps what a launch with this number is to keep; itself where it keeps nothing."""
        if kept_by(self._options, number) is Role.SPANS and variant.records and not variant.all_spans:
            return self._spans_of(variant, kernel)
        return kernel

    def _spans_of(self, variant: _Variant, kernel: CompiledKernel) -> CompiledKernel:
        """The binary that keeps spans, for one launch; where it cannot be built, or there is no more room for
        spans, the one that keeps sums."""
        if not self._path.spans_are_due(next(variant.turns)):
            with variant.lock:
                variant.passed_over += 1
            return kernel
        spans = variant.others.of(kernel, ITS_SPANS)
        with variant.lock:
            variant.replaced += spans is not None
        return kernel if spans is None else spans

    def load_others(self, kernel: CompiledKernel, made: Mapping[str, Made]) -> None:
        """Load what has been built of a kernel to be launched in place of a binary that someone launches.
        Raises what loading does."""
        variant = self._variants.get((kernel.hash, driver.active.get_current_device()))
        if variant is None or not variant.records:
            return
        variant.others.load(kernel, made)


def _keeps(kernel: CompiledKernel) -> str:
    """What a binary that records keeps, "spans" or "sums"."""
    program = PROGRAMS.program(kernel)
    assert program is not None
    return program.manifest.keeps
