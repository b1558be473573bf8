"""Launches by another binary than the one that a session has compiled for most of them.

Beside a binary stand others, of the same source and options: where launches are sampled or timed the bare
one. Who launches the first, by whatever way (the function, the
binary itself, torch.compile), asks it for its launcher; that launches another in its place when the role of
the launch says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.launching.bare import BareLaunches
from profscope.launching.baseline import Baseline, Timed
from profscope.launching.beside import Made
from profscope.launching.hook import CompileHook
from profscope.launching.other_binaries import (
    ITS_BARE,
    RECORDED,
    SAMPLED,
    Binaries,
    OtherBinaries,
)
from profscope.launching.roles import Role, numbers_sampled, numbers_timed, role_of
from profscope.launching.stall_samples import Sampled, StallSamples
from profscope.options import Options
from profscope.recording.launch_path import LaunchPath
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
    for the first time at once have a binary each. samples, timed: what has been sampled and timed of it.
    records: it can; else it has numbers only where it is sampled."""

    def __init__(
        self, name: str, others: OtherBinaries, samples: Sampled, timed: Timed, *, records: bool
    ) -> None:
        self.name = name
        self.others = others
        self.samples = samples
        self.timed = timed
        self.numbers = count()  # next() is one step of C's: threads need no lock
        self.records = records


class Keeping:
    """Installed for the length of a session, inside the compile hook; does nothing where no launch is sampled
    or timed. path: of the launches, which it ties to the binary that ran."""

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
        self._bare = bare
        self._hook = hook
        self._path = path
        self._run: Callable[[CompiledKernel], Launcher] = CompiledKernel.run.fget
        self._binaries = Binaries(bare, hook, self._run, lambda: self._open)
        self._lock = threading.Lock()
        self._variants: dict[tuple[str, int], _Variant] = {}  # by Triton's hash and device
        self._launched: list[CompiledKernel] = []
        self._open = False

    def notes(self) -> list[str]:
        """Which binaries could not be built."""
        with self._lock:
            variants = list(self._variants.values())
        return list(dict.fromkeys(note for each in variants for note in each.others.notes(each.name)))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        if not self._options.samples and not self._options.baseline:
            yield
            return
        self._open = True
        try:
            with patched(CompiledKernel, "run", lambda run: _Run(self._begin)):
                yield
        finally:
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
            return kernel._run  # type: ignore[no-any-return]
        key = kernel.hash, driver.active.get_current_device()
        if key not in self._variants:
            samples = self._samples.variant(kernel.name)
            times = self._baseline.variant(kernel.name)
            others = OtherBinaries(self._binaries)
            self._variants[key] = _Variant(kernel.name, others, samples, times, records=records)
        variant = self._variants[key]
        numbers = variant.numbers
        sampled = numbers_sampled(self._options)
        timed = numbers_timed(self._options) if records else range(0)
        last = (timed or sampled or range(1))[-1]
        apart, thread, capturing = self._bare.apart, self._bare.thread, self._path.capturing

        def launch_in_turn(*args: Any) -> Any:
            stream = args[3]
            if (apart and thread.trial) or (stream and capturing()):
                return kernel._run(*args)
            number = next(numbers)
            if number == last:
                self._leave(kernel)  # the others need not come by here
            if number in sampled:
                return self._launch_sampled(variant, kernel, number, args)
            if number in timed and self._baseline.can():
                return self._launch_timed(variant, kernel, number, args)
            return kernel._run(*args)

        return launch_in_turn

    def _leave(self, kernel: CompiledKernel) -> None:
        """Launch this binary and no other from now on."""
        with self._lock:
            if self._open:
                vars(kernel)[_LAUNCHER] = kernel._run

    def _launch_sampled(
        self, variant: _Variant, kernel: CompiledKernel, number: int, args: tuple[Any, ...]
    ) -> Any:
        """Launch under the sampler, or as without samples= where that cannot be."""
        can, role = self._samples.can(variant.name), role_of(self._options, number)
        if can and role is Role.SAMPLED:
            bare = variant.others.for_sampler(kernel, SAMPLED)
            if bare is not None:
                run = partial(self._launch, kernel, bare, *args)
                return self._samples.launch(variant.samples, bare, "bare", args[3], run)
        if can and role is Role.SAMPLED_RECORDED and variant.records:
            recorded = variant.others.for_sampler(kernel, RECORDED)
            if recorded is not None:
                run = partial(self._launch, kernel, recorded, *args)
                return self._samples.launch(variant.samples, recorded, "spans", args[3], run)
        return self._launch(kernel, kernel, *args)

    def _launch_timed(
        self, variant: _Variant, kernel: CompiledKernel, number: int, args: tuple[Any, ...]
    ) -> Any:
        """Launch the bare binary or the one that records, timed; without a bare one, launch as without
        baseline=."""
        bare = variant.others.of(kernel, ITS_BARE)
        if bare is None:
            return self._launch(kernel, kernel, *args)
        is_bare = role_of(self._options, number) is Role.BARE
        binary = bare if is_bare else kernel
        run = partial(self._launch, kernel, binary, *args)
        return self._baseline.launch(variant.timed, binary, number, args[3], run, is_bare=is_bare)

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
            result = run(*arguments)
        self._path.tie(other.function, other.name)  # where only some launches are recorded no hook has
        return result

    def load_others(self, kernel: CompiledKernel, made: Mapping[str, Made]) -> None:
        """Load what has been built of a kernel to be launched in place of a binary that someone launches.
        Raises what loading does."""
        variant = self._variants.get((kernel.hash, driver.active.get_current_device()))
        if variant is None or not variant.records:
            return
        variant.others.load(kernel, made)
