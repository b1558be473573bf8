"""Opens a program's session at its first launch of a Triton kernel, and no sooner.

A session needs torch, Triton and the GPU. A program may set environment variables before it imports them, or
fork before it touches the GPU, and then runs as it does by itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

from profscope.compat.origins import ORIGINS
from profscope.compat.patches import after_import, patched_property
from profscope.compat.torch_parts import missing_attribute

__all__ = ["FirstLaunch"]

# What the first launch goes through: as `Running.entered` names it, module, class, method.
_GATES: Final = (
    ("kernel", "triton.compiler.compiler", "CompiledKernel", "run"),
    ("held", "triton.backends.nvidia.driver", "CudaLauncher", "__call__"),
    ("held", "triton.backends.amd.driver", "HIPLauncher", "__call__"),
    ("held", "profscope.emulator.launcher", "Launcher", "__call__"),
    ("trial", "triton.runtime.autotuner", "Autotuner", "_bench"),
    ("tuner", "torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "run"),
)

Enter = Callable[[str, Callable[..., Any], Any], Callable[..., Any]]


class FirstLaunch:
    """Calls `then` before the first launch, once, in the process that made this and in no fork of it.

    then: opens the session. It returns the session's `Running.entered`, through which that first launch goes
    on, or None: the launch goes on as without a session.
    """

    def __init__(self, then: Callable[[], Enter | None]) -> None:
        self._then = then
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._stack: contextlib.ExitStack | None = None
        self._opening = 0  # the thread that does
        self._enter: Enter | None = None

    def await_it(self) -> None:
        """Begin to wait, for modules imported already or later; does nothing if it waits already."""
        with self._lock:
            if self._stack is not None:
                return
            self._stack = contextlib.ExitStack()
            self._stack.enter_context(ORIGINS.watching())  # what is launched first is compiled before
            for gate, module, owner, method in _GATES:
                watch = partial(self._watch, gate, owner, method)
                self._stack.enter_context(after_import(module, watch))

    def stop(self) -> None:
        """Wait no longer: all is as it was."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _watch(self, gate: str, owner: str, method: str, module: ModuleType) -> None:
        if self._stack is None or missing_attribute(module, f"{owner}.{method}"):
            return  # of the latter a session says what is missing; it begins with another launch
        original = vars(getattr(module, owner))[method]

        def get(launched: Any) -> Any:
            plain = original.__get__(launched)
            enter = None if self._passes() else self._begin()
            return plain if enter is None else enter(gate, plain, launched)

        self._stack.enter_context(patched_property(getattr(module, owner), method, get))

    def _passes(self) -> bool:
        """Whether a launch is none of ours: nobody waits, or it is one that opens the session."""
        return self._stack is None or self._opening == threading.get_ident()

    def _begin(self) -> Enter | None:
        """Open the session; other threads wait until that is done."""
        if os.getpid() != self._pid:  # forked: a thread that is gone may hold the lock
            self._close()
            return None
        with self._lock:
            if self._stack is not None:
                self._opening = threading.get_ident()
                try:
                    self._enter = self._then()
                finally:
                    self._opening = 0
                    self._close()
            return self._enter
