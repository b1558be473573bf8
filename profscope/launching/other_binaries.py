"""The binaries beside one that a session has compiled, of the same source and options: the bare one, and
those for the sampler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from triton.compiler import CompiledKernel

from profscope.errors import CompileError
from profscope.launching.again import compiled_again
from profscope.launching.bare import BareLaunches
from profscope.launching.beside import BARE, Made
from profscope.launching.hook import CompileHook
from profscope.recording.messages import one_line
from profscope.recording.programs import PROGRAMS

__all__ = [
    "ITS_BARE",
    "RECORDED",
    "SAMPLED",
    "Binaries",
    "OtherBinaries",
]

# An attribute of a binary: the other stays with it, for later sessions, too.
ITS_BARE: Final = "_profscope_bare"
# Those for the sampler, each session's own: CUPTI may not know what was loaded before it was opened.
SAMPLED: Final = "bare"
RECORDED: Final = "recorded"
_MISSING: Final = {
    ITS_BARE: "no launch ran bare to be timed",
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
        binary = self._again(kernel) if kind == RECORDED else self._bare(kernel)
        self.run(binary)
        return binary

    def _bare(self, kernel: CompiledKernel) -> CompiledKernel:
        """The binary that runs without a session."""
        with self.bare.tuning():
            bare = compiled_again(kernel)
        if PROGRAMS.program(bare) is not None:
            raise CompileError("compiled bare, it records")
        return bare

    def _again(self, kernel: CompiledKernel) -> CompiledKernel:
        """The same that records, loaded anew."""
        with self.bare.compiling(self._hook.settings):
            again = compiled_again(kernel)
        program = PROGRAMS.program(again)
        if program is None or program.manifest.failure:
            raise CompileError("compiled again, it does not record")
        return again


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
            if BARE in made and ITS_BARE not in vars(kernel):
                with self._binaries.bare.tuning():
                    bare = made[BARE].load(kernel.src)
                self._binaries.run(bare)
                setattr(kernel, ITS_BARE, bare)

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
