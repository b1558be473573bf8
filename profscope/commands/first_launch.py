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

from profscope.recording.after_import import after_import
from profscope.recording.origins import ORIGINS
from profscope.recording.patches import gated
from profscope.recording.unknown_torch import lacking

__all__ = ["FirstLaunch"]

# All that launches goes through one of these: module, class, method.
_DOORS: Final = (
    ("triton.runtime.jit", "JITFunction", "run"),
    ("triton.runtime.autotuner", "Autotuner", "run"),
    ("triton.compiler.compiler", "CompiledKernel", "__getitem__"),
    ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "run"),
)
# And these launch from C++, some of them: a session counts their calls.
_CPP_DOORS: Final = (
    ("torch.export.pt2_archive._package", "AOTICompiledModel", "__call__"),
    ("torch._inductor.output_code", "CompiledFxGraph", "__call__"),
)


class FirstLaunch:
    """Calls `then` before the first launch, once, in the process that made this and in no fork of it."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._stack: contextlib.ExitStack | None = None
        self._opening = 0  # the thread that does

    def await_it(self) -> None:
        """Begin to wait, for what is imported already and for what will be; goes on if it does already."""
        with self._lock:
            if self._stack is not None:
                return
            self._stack = contextlib.ExitStack()
            self._stack.enter_context(ORIGINS.watching())  # what is launched first is compiled before
            for module, owner, method in (*_DOORS, *_CPP_DOORS):
                self._stack.enter_context(after_import(module, partial(self._watch, owner, method)))

    def stop(self) -> None:
        """Wait no longer: all is as it was."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _watch(self, owner: str, method: str, module: ModuleType) -> None:
        if self._stack is None or lacking(module, f"{owner}.{method}"):
            return  # of the latter a session says what is missing; it begins with another launch
        self._stack.enter_context(gated(getattr(module, owner), method, partial(self._gate, method)))

    def _gate(self, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def launch(launched: Any, *args: Any, **options: Any) -> Any:
            # Who kept a gate launches as without it, and so does what opens the session.
            if self._stack is None or self._opening == threading.get_ident():
                return original(launched, *args, **options)
            if method == "__call__" and not _launches_from_cpp(launched):
                return original(launched, *args, **options)
            self._begin()
            return getattr(launched, method)(*args, **options)  # what the session has put there, if it has

        return launch

    def _begin(self) -> None:
        """Other threads wait at the gates until `then` returns: a binary would be compiled with the session's
        hook under a name that was chosen without it."""
        if os.getpid() != self._pid:  # forked: a thread that is gone may hold the lock
            self._close()
            return
        with self._lock:
            if self._stack is not None:
                self._opening = threading.get_ident()
                try:
                    self._then()
                finally:
                    self._opening = 0
                    self._close()


def _launches_from_cpp(called: Any) -> bool:
    from profscope.launching.aot_inductor import launches_from_cpp  # which imports torch

    return launches_from_cpp(called)
