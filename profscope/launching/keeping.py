"""Sessions that keep sums: the launches now and then that keep their spans instead.

What a session compiles keeps sums. Beside such a binary stands a second one, of the same source and options,
that keeps spans. Who launches the first, by whatever way (the function, the binary itself, torch.compile),
asks it for its launcher; that launches the second in its place when the role of the launch says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any, Final

from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.errors import CompileError
from profscope.launching.again import compiled_again
from profscope.launching.bare import BareLaunches
from profscope.launching.hook import CompileHook
from profscope.launching.roles import MOST_LAUNCHES, numbers_with_spans
from profscope.options import Options
from profscope.recording.launch_path import LaunchPath
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS

__all__ = ["Keeping"]

Launcher = Callable[..., Any]
_LAUNCHER: Final = "run"
_SPANS: Final = "_profscope_spans"  # of a binary that keeps sums: the other one, for later sessions, too


class _Run:
    """In place of CompiledKernel.run, the property that is a binary's launcher: a binary's own attribute of
    that name goes before it, and costs less. begin: gives a binary one."""

    def __init__(self, begin: Callable[[CompiledKernel], Launcher]) -> None:
        self._begin = begin

    def __get__(self, kernel: CompiledKernel | None, kind: type) -> Any:
        return self if kernel is None else self._begin(kernel)


class _Variant:
    """The launches of what the session compiled of one source with the same options: threads that launch it
    for the first time at once have a binary each. all_spans: it keeps spans itself."""

    def __init__(self, name: str, *, all_spans: bool) -> None:
        self.name = name
        self.numbers = iter(range(MOST_LAUNCHES))  # next() is one step of C's: threads need no lock
        self.all_spans = all_spans
        self.lock = threading.Lock()
        self.replaced = 0  # by what keeps spans
        self.why = ""  # there is nothing that does

    @property
    def launches(self) -> int:
        """How many have a number."""
        return MOST_LAUNCHES - length_hint(self.numbers)

    @property
    def spans(self) -> int:
        """How many of those keep spans."""
        return self.launches if self.all_spans else self.replaced


class Keeping:
    """Installed for the length of a session, inside the compile hook; does nothing where all launches keep
    spans. path: of the launches, which it ties to the binary that ran: Triton's launch hooks would cost each
    launch a microsecond more."""

    def __init__(self, options: Options, bare: BareLaunches, hook: CompileHook, path: LaunchPath) -> None:
        self._options = options
        self._bare = bare
        self._hook = hook
        self._path = path
        self._run: Callable[[CompiledKernel], Launcher] = CompiledKernel.run.fget
        self._lock = threading.Lock()
        self._variants: dict[tuple[str, int], _Variant] = {}  # by Triton's hash and device
        self._launched: list[CompiledKernel] = []
        self._open = False

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "keeping" where some launches keep sums, and notes.

        It counts launches where they begin. Trials, and what is captured into CUDA graphs, count nowhere.
        """
        if self._options.keep == "spans":
            return {}, []
        with self._lock:
            variants = list(self._variants.values())
        spans, launches = Counter[str](), Counter[str]()
        for variant in variants:
            spans[variant.name] += variant.spans
            launches[variant.name] += variant.launches
        kernels = {
            name: {"spans": spans[name], "sums": count - spans[name]}
            for name, count in sorted(launches.items())
            if count
        }
        notes = [
            f"{name}: {counts['spans']} of {sum(counts.values())} launches kept spans, the others sums"
            for name, counts in kernels.items()
            if counts["sums"]
        ]
        notes += [
            f"{variant.name}: launches that were to keep spans keep sums: {variant.why}"
            for variant in variants
            if variant.why
        ]
        entry = {"keep": self._options.keep, "spans_every": self._options.spans_every, "kernels": kernels}
        return {"keeping": entry}, list(dict.fromkeys(notes))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        if self._options.keep == "spans":
            yield
            return
        self._open = True
        try:
            with patched(CompiledKernel, "run", self._fetched):
                yield
        finally:
            with self._lock:
                self._open = False
                for kernel in self._launched:
                    del vars(kernel)[_LAUNCHER]
                self._launched.clear()

    def _fetched(self, run: Any) -> Any:
        return _Run(self._begin)

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
        if program is None or program.mode != self._hook.mode or program.manifest.failure:
            return self._launcher_of_other(kernel)
        key = kernel.hash, driver.active.get_current_device()
        if key not in self._variants:
            self._variants[key] = _Variant(kernel.name, all_spans=program.manifest.keeps == "spans")
        variant = self._variants[key]
        apart, thread, capturing = self._bare.apart, self._bare.thread, self._path.capturing
        loaded = PROGRAMS.of(kernel.function) or program  # with its build
        numbers, enqueued = variant.numbers, self._path.enqueued
        due = range(0) if variant.all_spans else numbers_with_spans(self._options)
        every, rest = (due.step, 0) if due else (1, 1)  # quicker than to look the number up in a range

        def launch(*args: Any) -> Any:
            stream = args[3]  # 0, the default one, cannot be captured
            if (apart and thread.trial) or (stream and capturing()) or next(numbers) % every != rest:
                result = kernel._run(*args)
                enqueued(loaded)
                return result
            return self._launch_spans(variant, kernel, *args)

        return launch

    def _launcher_of_other(self, kernel: CompiledKernel) -> Launcher:
        """Of a binary that is bare, or of another session."""
        tie = self._path.tie

        def launch(*args: Any) -> Any:
            result = kernel._run(*args)
            tie(kernel.function, kernel.name)
            return result

        return launch

    def _launch_spans(
        self, variant: _Variant, kernel: CompiledKernel, x: int, y: int, z: int, stream: int, function: Any,
        packed: Any, about: Any, *others: Any,
    ) -> Any:  # fmt: skip
        """Launch what keeps spans in place of a binary, or that itself where there is none.

        about: what Triton tells the launch hooks; others: these, and the kernel's arguments.
        """
        spans = self._spans_of(variant, kernel)
        if spans is None:
            result = kernel._run(x, y, z, stream, function, packed, about, *others)
            self._path.tie(kernel.function, kernel.name)
            return result
        if about is not None:
            about.data["function"] = spans.function
        run = self._run(spans)
        result = run(x, y, z, stream, spans.function, spans.packed_metadata, about, *others)
        self._path.tie(spans.function, spans.name)
        return result

    def _spans_of(self, variant: _Variant, kernel: CompiledKernel) -> CompiledKernel | None:
        """The binary that keeps spans, compiled when it is first wanted; None if it cannot be built."""
        with variant.lock:
            spans = vars(kernel).get(_SPANS)
            if spans is None and not variant.why and self._open:
                try:
                    spans = self._build(kernel)
                except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
                    variant.why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            variant.replaced += spans is not None
            return spans

    def _build(self, kernel: CompiledKernel) -> CompiledKernel:
        """The same kernel, but that it keeps spans, loaded. Raises what compiling and loading do."""
        assert self._hook.of_spans is not None
        with self._bare.compiling(self._hook.of_spans.settings):
            spans = compiled_again(kernel)
        program = PROGRAMS.program(spans)
        if program is None or program.manifest.failure:
            why = "it is bare" if program is None else program.manifest.failure
            raise CompileError(f"compiled to keep spans, {why}")
        self._run(spans)
        setattr(kernel, _SPANS, spans)
        return spans
