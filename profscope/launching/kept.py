"""Compiled kernels that users and libraries keep, and launch themselves: `kernel[grid](...)`.

    kernel = add_kernel[grid](...)    # or add_kernel.warmup(...)
    with profscope.session() as prof:
        kernel[grid](...)

Such a launch does not go through the function, where a session puts its own binary in the place of the bare
one. So the binary is asked instead: in its place a session launches one that it compiles from the same source
with the same options. Where that cannot be done, the launch runs unrecorded and the notes name it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from triton.compiler import ASTSource, CompiledKernel
from triton.runtime import driver

from profscope.launching.again import compiled_again
from profscope.launching.bare import BareLaunches
from profscope.launching.sampling import Sampling
from profscope.options import Options
from profscope.recording.journal import number_of_launches
from profscope.recording.messages import one_line
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS

__all__ = ["KeptBinaries"]

_CAPTURED: Final = "it was not launched in the session before CUDA graph capture"


class _Kept:
    """A binary, and those that stand for it. made: by whether it records; None where there is none."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel  # held: binaries are known by their id
        self.lock = threading.Lock()
        self.made: dict[bool, CompiledKernel | None] = {}
        self.why = ""  # there is none


class KeptBinaries:
    """Installed for the length of a session, inside the compile hook."""

    def __init__(self, options: Options, bare: BareLaunches, sampling: Sampling) -> None:
        self._options = options
        self._bare = bare
        self._sampling = sampling
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}
        self._unrecorded: Counter[tuple[str, str]] = Counter()  # kernel and why -> launches
        self._open = False

    def notes(self) -> list[str]:
        """One line for each reason why launches ran unrecorded."""
        with self._lock:
            return [
                f"{number_of_launches(count)} of {name} ran unrecorded, by a binary that was kept: {why}"
                for (name, why), count in self._unrecorded.items()
            ]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        self._open = True
        try:
            with patched(CompiledKernel, "__getitem__", self._wrap):
                yield
        finally:
            self._open = False
            self._kept.clear()

    def _wrap(self, launcher: Callable[..., Any]) -> Callable[..., Any]:
        """CompiledKernel.__getitem__, which returns what launches the kernel on a grid."""

        def launcher_of_choice(kernel: CompiledKernel, grid: Any) -> Callable[..., None]:
            if not self._concerns(kernel):
                return launcher(kernel, grid)  # type: ignore[no-any-return]

            def run(*args: Any, stream: Any = None) -> None:
                self._run(kernel, lambda binary: launcher(binary, grid)(*args, stream=stream))

            return run

        return launcher_of_choice

    def _concerns(self, kernel: CompiledKernel) -> bool:
        """Whether launches of a binary are the session's business, and it is not its own already."""
        if self._is_own(kernel) and self._options.every == 1:
            return False
        if not self._options.matches(kernel.name):
            return False
        return bool(kernel.metadata.target == driver.active.get_current_target())

    def _is_own(self, kernel: CompiledKernel) -> bool:
        program = PROGRAMS.program(kernel)
        return program is not None and program.mode == self._sampling.mode

    def _run(self, kernel: CompiledKernel, launch: Callable[[CompiledKernel], None]) -> None:
        if not self._open or self._bare.here:  # an autotuner times it
            launch(kernel)
            return
        kept = self._kept.get(id(kernel)) or self._begin(kernel)
        if isinstance(kernel.src, ASTSource) and not self._sampling.is_due(kernel.src.fn, kernel.name):
            launch(self._stand_in(kept, records=False) or kernel)
            return
        own = self._stand_in(kept, records=True)
        if own is None:
            with self._lock:
                self._unrecorded[kernel.name, kept.why] += 1
            launch(kernel)
        elif self._options.every == 1:  # as all that is launched
            launch(own)
        else:
            self._record(own, launch)

    def _record(self, own: CompiledKernel, launch: Callable[[CompiledKernel], None]) -> None:
        def launched() -> CompiledKernel:
            launch(own)
            return own

        self._sampling.record(launched)

    def _begin(self, kernel: CompiledKernel) -> _Kept:
        with self._lock:
            if id(kernel) not in self._kept:  # another thread may have been quicker
                self._kept[id(kernel)] = _Kept(kernel)
            return self._kept[id(kernel)]

    def _stand_in(self, kept: _Kept, *, records: bool) -> CompiledKernel | None:
        """The binary to launch in place of a kept one, perhaps itself; None where it cannot be built."""
        with kept.lock:
            if records not in kept.made:
                if self._is_own(kept.kernel) if records else PROGRAMS.program(kept.kernel) is None:
                    kept.made[records] = kept.kernel
                elif torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                    kept.why = _CAPTURED
                    return None
                else:
                    kept.made[records] = self._build(kept, records=records)
            return kept.made[records]

    def _build(self, kept: _Kept, *, records: bool) -> CompiledKernel | None:
        try:
            with self._bare.recording() if records else self._bare.tuning():
                return compiled_again(kept.kernel)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            kept.why = one_line(error)
            return None
