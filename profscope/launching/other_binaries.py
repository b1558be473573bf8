"""The binaries beside one that a session has compiled, of the same source and options: one that keeps spans
where it keeps sums, the bare one, and those for the sampler."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from triton.compiler import CompiledKernel

from profscope.errors import CompileError
from profscope.launching.again import compiled_again
from profscope.launching.bare import BareLaunches
from profscope.launching.beside import BARE, SPANS, Made
from profscope.launching.hook import CompileHook
from profscope.recording.messages import one_line
from profscope.recording.programs import PROGRAMS

__all__ = [
    "ITS_BARE",
    "ITS_NULL",
    "ITS_SPANS",
    "RECORDED",
    "SAMPLED",
    "Binaries",
    "OtherBinaries",
    "spans_of",
]

# Attributes of a binary: the others stay with it, for later sessions, too.
ITS_SPANS: Final = "_profscope_spans"
ITS_BARE: Final = "_profscope_bare"
ITS_NULL: Final = "null"
# Those for the sampler, each session's own: CUPTI may not know what was loaded before it was opened.
SAMPLED: Final = "bare"
RECORDED: Final = "recorded"
_MISSING: Final = {
    ITS_SPANS: "launches that were to keep spans keep sums",
    ITS_BARE: "no launch ran bare to be timed",
    ITS_NULL: "no launch ran with its code shifted",
    SAMPLED: "no launch ran bare under the sampler",
    RECORDED: "no recorded launch ran under the sampler",
}


class Binaries:
    """What makes them. run: CompiledKernel.run, which loads one. is_open: whether the session records."""

    def __init__(
        self,
        bare: BareLaunches,
        hook: CompileHook,
        run: Callable[[CompiledKernel], Any],
        is_open: Callable[[], bool],
    ) -> None:
        self.bare = bare
        self.run = run
        self.is_open = is_open
        self._hook = hook

    def build(self, kernel: CompiledKernel, kind: str) -> CompiledKernel:
        """Another binary of a kernel, compiled and loaded. Raises what compiling does."""
        builds = {ITS_SPANS: self._with_spans, RECORDED: self._again}
        binary = builds.get(kind, self._bare)(kernel)
        self.run(binary)
        return binary

    def _with_spans(self, kernel: CompiledKernel) -> CompiledKernel:
        """The same kernel, but that it keeps spans."""
        assert self._hook.of_spans is not None
        with self.bare.compiling(self._hook.of_spans.settings):
            spans = compiled_again(kernel)
        program = PROGRAMS.program(spans)
        if program is None or program.manifest.failure:
            why = "it is bare" if program is None else program.manifest.failure
            raise CompileError(f"compiled to keep spans, {why}")
        return spans

    def _bare(self, kernel: CompiledKernel) -> CompiledKernel:
        """The binary that runs without a session."""
        with self.bare.tuning():
            bare = compiled_again(kernel)
        if PROGRAMS.program(bare) is not None:
            raise CompileError("compiled bare, it records")
        return bare

    def _again(self, kernel: CompiledKernel) -> CompiledKernel:
        """The same that records, loaded anew."""
        program = PROGRAMS.program(kernel)
        hook = self._hook if program is not None and program.mode == self._hook.mode else self._hook.of_spans
        assert hook is not None
        with self.bare.compiling(hook.settings):
            again = compiled_again(kernel)
        program = PROGRAMS.program(again)
        if program is None or program.manifest.failure:
            raise CompileError("compiled again, it does not record")
        return again


def spans_of(kernel: CompiledKernel) -> CompiledKernel | None:
    """The binary that keeps spans in place of this one, where it has been made."""
    return vars(kernel).get(ITS_SPANS)


class OtherBinaries:
    """Those of one source with the same options. why: by kind, why there is none. Thread-safe."""

    def __init__(self, binaries: Binaries) -> None:
        self.why: dict[str, str] = {}
        self._binaries = binaries
        self._lock = threading.Lock()
        self._for_sampler: dict[str, CompiledKernel] = {}

    def of(self, kernel: CompiledKernel, kind: str) -> CompiledKernel | None:
        """Another binary of a kernel, which stays with it; None if that fails."""
        with self._lock:
            other: CompiledKernel | None = vars(kernel).get(kind)
            if other is None:
                other = self._built(kernel, kind)
                if other is not None:
                    setattr(kernel, kind, other)
            return other

    def for_sampler(self, kernel: CompiledKernel, kind: str) -> CompiledKernel | None:
        """A kernel's bare binary, or itself again, loaded while the sampler is open; None if that fails."""
        with self._lock:
            binary = self._for_sampler.get(kind)
            if binary is None:
                binary = self._built(kernel, kind)
                if binary is not None:
                    self._for_sampler[kind] = binary
            return binary

    def load(self, kernel: CompiledKernel, made: Mapping[str, Made]) -> None:
        """Load what has been built of a kernel. Raises what loading does."""
        with self._lock:
            for kind, name in ((ITS_SPANS, SPANS), (ITS_BARE, BARE)):
                if name in made and kind not in vars(kernel):
                    aside = self._binaries.bare.tuning() if name == BARE else contextlib.nullcontext()
                    with aside:
                        other = made[name].load(kernel.src)
                    self._binaries.run(other)
                    setattr(kernel, kind, other)

    def close(self) -> None:
        """The session ends, or is paused."""
        self._for_sampler.clear()

    def notes(self, name: str) -> list[str]:
        """What is not there of the kernel of this name."""
        return [f"{name}: {_MISSING[kind]}: {why}" for kind, why in self.why.items()]

    def _built(self, kernel: CompiledKernel, kind: str) -> CompiledKernel | None:
        """None if that fails, and once it has failed."""
        if kind in self.why or not self._binaries.is_open():
            return None
        try:
            return self._binaries.build(kernel, kind)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            self.why[kind] = one_line(error)
            return None
