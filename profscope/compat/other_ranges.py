"""Ranges that programs have already, as host scopes: NVTX by torch and by the `nvtx` package, and
torch.profiler's `record_function`.

Each is picked up where its calls meet: torch.cuda.nvtx calls one object for all, the `nvtx` package functions
of its core, and `record_function` enters and exits. What was there before still runs, and comes back.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, Protocol

from profscope.compat.after_import import after_import
from profscope.compat.patches import patched, replaced

__all__ = ["OtherRanges"]

_NVTX: Final = "nvtx"
_FUNCTION: Final = "record_function"


class Scopes(Protocol):
    """What takes ranges: a session's `HostScopes`."""

    def begin(self, name: str, source: str, *, nested: bool = True) -> Any:
        """A range of the calling thread begins; None if it is not kept."""

    def end_innermost(self, source: str) -> None:
        """The calling thread's innermost range of this source ends."""

    def leave(self, row: Any) -> None:
        """A range that `begin` returned ends."""


class OtherRanges:
    """Of a session. scopes: what ranges become."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._started: dict[Any, Any] = {}  # by what start_range returned
        self._open = False  # functions of ours may be held by those who imported them meanwhile

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Ranges of the body of a with statement become scopes."""
        from torch.autograd.profiler import record_function
        from torch.cuda import nvtx

        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced(nvtx, "_nvtx", _TorchNvtx(nvtx._nvtx, self)))
            stack.enter_context(patched(record_function, "__enter__", self._enter_function))
            stack.enter_context(patched(record_function, "__exit__", self._exit_function))
            stack.enter_context(after_import("nvtx.nvtx", lambda module: self._take(module, stack)))
            stack.enter_context(after_import("nvtx", lambda package: self._take_unheard(package, stack)))
            self._open = True
            stack.callback(setattr, self, "_open", False)
            yield

    def push(self, name: object) -> None:
        """A range of NVTX's begins on this thread."""
        if self._open:
            self._scopes.begin(str(name), _NVTX)

    def pop(self) -> None:
        if self._open:
            self._scopes.end_innermost(_NVTX)

    def start(self, handle: Any, name: object) -> None:
        """A range begins that any thread may end, by its handle."""
        row = self._scopes.begin(str(name), _NVTX, nested=False) if self._open else None
        if row is not None:
            self._started[handle] = row

    def stop(self, handle: Any) -> None:
        row = self._started.pop(handle, None)
        if row is not None:
            self._scopes.leave(row)

    def _take(self, module: ModuleType, stack: contextlib.ExitStack) -> None:
        """The `nvtx` package's core functions, as its own module calls them; those a version lacks, not."""
        for name, wrap in (
            ("libnvtx_push_range", self._pushing),
            ("libnvtx_pop_range", self._popping),
            ("libnvtx_start_range", self._starting),
            ("libnvtx_end_range", self._stopping),
        ):
            if hasattr(module, name):
                stack.enter_context(patched(module, name, wrap))

    def _take_unheard(self, package: ModuleType, stack: contextlib.ExitStack) -> None:
        """Where no tool listens to NVTX the package's core functions are not called: its domains are all one
        object that does nothing. There the ranges are taken of those who would call."""
        core = sys.modules.get("nvtx.nvtx")
        nobody = getattr(core, "dummy_domain", None)
        if core is None or nobody is None:
            return

        def enter(entered: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def entering(annotation: Any) -> Any:
                if self._open and annotation.domain is nobody:
                    self.push(annotation.init_args[0] or "")
                return entered(annotation)

            return entering

        def leave(left: Callable[..., Any]) -> Callable[..., Any]:
            def leaving(annotation: Any, *error: Any) -> Any:
                if self._open and annotation.domain is nobody:
                    self.pop()
                return left(annotation, *error)

            return leaving

        def push(pushed: Callable[..., Any]) -> Callable[..., Any]:
            def pushing(
                message: Any = None, color: Any = None, domain: Any = None, *more: Any, **rest: Any
            ) -> Any:
                if self._open and core.get_domain(domain) is nobody:
                    self.push(message or "")
                return pushed(message, color, domain, *more, **rest)

            return pushing

        def pop(popped: Callable[..., Any]) -> Callable[..., Any]:
            def popping(domain: Any = None) -> Any:
                if self._open and core.get_domain(domain) is nobody:
                    self.pop()
                return popped(domain)

            return popping

        stack.enter_context(patched(core.annotate, "__enter__", enter))
        stack.enter_context(patched(core.annotate, "__exit__", leave))
        for module in (package, core):
            stack.enter_context(patched(module, "push_range", push))
            stack.enter_context(patched(module, "pop_range", pop))

    def _pushing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def push(attributes: Any, *args: Any) -> Any:
            result = function(attributes, *args)
            self.push(_message(attributes))
            return result

        return push

    def _popping(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def pop(*args: Any) -> Any:
            result = function(*args)
            self.pop()
            return result

        return pop

    def _starting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def start(attributes: Any, *args: Any) -> Any:
            handle = function(attributes, *args)
            self.start(("nvtx", handle), _message(attributes))
            return handle

        return start

    def _stopping(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stop(handle: Any, *args: Any) -> Any:
            result = function(handle, *args)
            self.stop(("nvtx", handle))
            return result

        return stop

    def _enter_function(self, enter: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def entering(function: Any) -> Any:
            result = enter(function)
            self._scopes.begin(function.name, _FUNCTION)
            return result

        return entering

    def _exit_function(self, leave: Callable[..., None]) -> Callable[..., None]:
        def leaving(function: Any, *error: Any) -> None:
            self._scopes.end_innermost(_FUNCTION)
            leave(function, *error)

        return leaving


class _TorchNvtx:
    """Stands for what torch.cuda.nvtx calls; a call that raises there leaves no range."""

    def __init__(self, behind: Any, ranges: OtherRanges) -> None:
        self._behind = behind
        self._ranges = ranges

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def rangePushA(self, message: str) -> Any:  # noqa: N802  its name
        depth = self._behind.rangePushA(message)
        self._ranges.push(message)
        return depth

    def rangePop(self) -> Any:  # noqa: N802
        depth = self._behind.rangePop()
        self._ranges.pop()
        return depth

    def rangeStartA(self, message: str) -> Any:  # noqa: N802
        handle = self._behind.rangeStartA(message)
        self._ranges.start(("torch", handle), message)
        return handle

    def rangeEnd(self, handle: Any) -> None:  # noqa: N802
        self._behind.rangeEnd(handle)
        self._ranges.stop(("torch", handle))


def _message(attributes: Any) -> str:
    """The text of a range of the `nvtx` package's; "" where it has none."""
    message = getattr(attributes, "message", None)
    return str(getattr(message, "string", message or ""))
