"""Proton's instrumentation backend, which no session can stand beside: both put records into kernels, and
there is one profile buffer, one allocator of it and one instrumentation of Triton's compiler for the two.

    proton.start("name", backend="instrumentation")    # and torch.compile under
                                                       # TORCHINDUCTOR_TRITON_PROTON_PROFILING=1
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from profscope.errors import SessionError
from profscope.recording.after_import import after_import
from profscope.recording.patches import patched

__all__ = ["alone"]

_MODULE: Final = "triton.profiler.hooks.instrumentation"
_HOOK: Final = "InstrumentationHook"
_WHY: Final = (
    "Proton's instrumentation (proton.start(backend='instrumentation'), or "
    "TORCHINDUCTOR_TRITON_PROTON_PROFILING=1) and a profscope session cannot record at once: both use a "
    "kernel's profile buffer; "
)


@contextlib.contextmanager
def alone(gives_way: Callable[[], Callable[[], None] | None]) -> Iterator[None]:
    """For the body of a with statement, who turns it on gets a SessionError; or what `gives_way` returns is
    called, which leaves the body, and then it is turned on. Raises SessionError where it is on already."""
    module: Any = sys.modules.get(_MODULE)
    if getattr(getattr(module, _HOOK, None), "active_count", 0):
        raise SessionError(f"{_WHY}call proton.finalize() before the session")

    def wrap(activate: Callable[..., Any]) -> Callable[..., Any]:
        def activated(hook: Any) -> Any:
            leave = gives_way()
            if leave is None:
                raise SessionError(f"{_WHY}start it before or after the session, or run without one")
            leave()
            return activate(hook)

        return activated

    with contextlib.ExitStack() as stack:

        def patch(module: ModuleType) -> None:
            stack.enter_context(patched(getattr(module, _HOOK), "activate", wrap))

        stack.enter_context(after_import(_MODULE, patch))
        yield
