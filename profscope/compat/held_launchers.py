"""Triton's launchers that users hold: `run = kernel.run` of before a session, called in it.

`CompiledKernel.run` is the launcher of a loaded binary, an object that is called. Those who fetch it for each
launch come by the door of a session; those who hold it come by here.
Used of Triton 3.6 to 3.9: `launcher_cls` of drivers, whose objects `CompiledKernel._run` names.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ReferenceType, ref

from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.compat.kernels import Launcher
from profscope.compat.patches import Gate, patched_property

__all__ = ["HeldLaunchers"]


class HeldLaunchers:
    """In the place of the `__call__` of the active driver's launchers, while it is open. Thread-safe.

    launcher_of: what a session launches a kernel with; passes: whether what the calling thread launches was
    decided by others. of_lost_kernels: how many launches ran bare as their kernels were gone.
    """

    def __init__(self, launcher_of: Callable[[CompiledKernel], Launcher], passes: Callable[[], bool]) -> None:
        self.of_lost_kernels = 0
        self._launcher_of = launcher_of
        self._passes = passes
        self._class: Any = None
        self._gate: Gate | None = None
        self._stack = contextlib.ExitStack()
        self._kernels: dict[int, ReferenceType[CompiledKernel]] = {}  # by id of their launcher
        self._known: dict[int, tuple[Any, Launcher]] = {}  # by id of the launcher, which is kept

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement."""
        self._class = driver.active.launcher_cls
        self.shut(is_shut=False)
        try:
            yield
        finally:
            self.shut(is_shut=True)
            self._known.clear()
            self._kernels.clear()

    def shut(self, *, is_shut: bool) -> None:
        """Shut it, or open it again."""
        self._stack.close()
        self._gate = None
        if not is_shut and "__call__" in vars(self._class):  # else of no kind that is known
            self._gate = self._stack.enter_context(patched_property(self._class, "__call__", self.called))

    def own(self, launcher: Any) -> Launcher:
        """The launcher's own call, without a patch."""
        if self._gate is None or not isinstance(launcher, self._class):
            return launcher  # type: ignore[no-any-return]
        return self._gate.original.__get__(launcher, type(launcher))  # type: ignore[no-any-return]

    def met(self, launcher: Any, kernel: CompiledKernel) -> None:
        """A launcher is a kernel's."""
        self._kernels[id(launcher)] = ref(kernel)

    def called(self, launcher: Any) -> Launcher:
        """The function that a call of a launcher runs."""
        if self._passes():
            return self.own(launcher)
        known = self._known.get(id(launcher))
        if known is None:
            known = self._known[id(launcher)] = launcher, self._session_launcher(launcher)
        return known[1]

    def _session_launcher(self, launcher: Any) -> Launcher:
        own, kernel = self.own(launcher), self._kernel(launcher)
        if kernel is None:

            def bare(*args: Any) -> Any:
                self.of_lost_kernels += 1
                return own(*args)

            return bare
        launches = self._launcher_of(kernel)
        return own if launches is launcher else launches

    def _kernel(self, launcher: Any) -> CompiledKernel | None:
        """The kernel whose launcher this is; None if it is gone. To look for one takes long, so all that are
        there are kept in mind."""
        for looks in (False, True):
            if looks:
                kernels = [each for each in gc.get_objects() if issubclass(type(each), CompiledKernel)]
                self._kernels |= {id(each._run): ref(each) for each in kernels}
            kernel = self._kernels.get(id(launcher), lambda: None)()
            if kernel is not None and kernel._run is launcher:
                return kernel
        return None
