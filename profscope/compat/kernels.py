"""Triton's compiled kernels: what they are of, loading, and the door that all their launches go through.

`JITFunction.run`, a compiled kernel that a user holds, and Inductor's launchers all fetch
`CompiledKernel.run` and call it. Used of Triton 3.6 to 3.9: this property, `_init_handles`, `_run`, and
`Autotuner._bench`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from profscope.compat.patches import patched, patched_property

__all__ = ["Door", "load", "plain_launcher", "source_file", "trials", "watched_launches"]

_DOOR: Final = "run"
Launcher = Callable[..., Any]


def load(kernel: CompiledKernel) -> Launcher:
    """Load a binary, if it is not, and return Triton's own launcher of it. Raises what loading does."""
    if kernel._run is None:
        kernel._init_handles()
    return kernel._run  # type: ignore[no-any-return]


def plain_launcher(kernel: CompiledKernel) -> Launcher:
    """Triton's own launcher of a loaded binary, whatever door stands before it."""
    return kernel._run  # type: ignore[no-any-return]


def source_file(kernel: CompiledKernel) -> str:
    """The file of a kernel's function; "" if it was compiled from IR."""
    function = getattr(getattr(kernel.src, "fn", None), "fn", None)
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


class Door:
    """In the place of `CompiledKernel.run` for the body of a with statement. open_for: makes what a loaded
    binary is launched with. It is asked once for each binary: that stays with the binary until the door is
    taken out, and costs later launches no more than a call.
    """

    def __init__(self, open_for: Callable[[CompiledKernel], Launcher]) -> None:
        self._open_for = open_for
        self._lock = threading.Lock()
        self._doors: list[tuple[CompiledKernel, Launcher]] = []
        self._installed = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install it."""
        self._installed = True
        try:
            with patched_property(CompiledKernel, _DOOR, self.launcher):
                yield
        finally:
            with self._lock:
                self._installed = False
                for kernel, door in self._doors:
                    if vars(kernel).get(_DOOR) is door:
                        del vars(kernel)[_DOOR]
                self._doors.clear()

    def set(self, kernel: CompiledKernel, launcher: Launcher) -> None:
        """Launch a binary with `launcher` while the door is installed."""
        with self._lock:
            if self._installed:
                vars(kernel)[_DOOR] = launcher
                self._doors.append((kernel, launcher))

    def launcher(self, kernel: CompiledKernel) -> Launcher:
        """What a binary is launched with."""
        run = load(kernel)
        if _DOOR not in vars(kernel):
            self.set(kernel, self._open_for(kernel))
        launcher: Launcher = vars(kernel).get(_DOOR, run)
        return launcher


@contextlib.contextmanager
def watched_launches(wrap: Callable[[Launcher], Launcher]) -> Iterator[None]:
    """In the body of a with statement launches go through `wrap` of the methods of kernels, autotuners and
    heuristics that launch."""
    with contextlib.ExitStack() as stack:
        for each in (JITFunction, Autotuner, Heuristics):
            stack.enter_context(patched(each, "run", wrap))
        yield


def trials(wrap: Callable[[Launcher], Launcher]) -> contextlib.AbstractContextManager[None]:
    """For the body of a with statement, Triton's autotuner times a configuration by `wrap` of its method."""
    return patched(Autotuner, "_bench", wrap)
