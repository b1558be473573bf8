"""Ranges that programs have already, as host scopes: NVTX by torch and by the `nvtx` package, and
torch.profiler's `record_function`.

The patched functions still run, and are restored. torch.cuda.nvtx calls one object for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from profscope.compat.patches import Method, after_import, patched, replaced

__all__ = ["OtherRanges"]

_NVTX: Final = "nvtx"
_FUNCTION: Final = "record_function"


class Scopes(Protocol):
    """The receiver of ranges: a session's `HostScopes`."""

    def begin(self, name: str, source: str, *, nested: bool = True) -> Any:
        """A range of the calling thread begins; None if it is not kept."""

    def end_innermost(self, source: str) -> None:
        """The calling thread's innermost range of this source ends."""

    def leave(self, row: Any) -> None:
        """A range that `begin` returned ends."""


class OtherRanges:
    """The ranges of a session. scopes: receives them."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._started: dict[Any, Any] = {}  # by what rangeStartA returned
        self._open = False  # functions of ours may be held by those who imported them meanwhile

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Ranges of the body of a with statement become scopes."""
        from torch.autograd.profiler import record_function
        from torch.cuda import nvtx

        with contextlib.ExitStack() as stack:

            def package(module: Any) -> None:
                for owner, name, wrap in (
                    (module.annotate, "__enter__", self._beginning(_annotated, _NVTX)),
                    (module.annotate, "__exit__", self._ending(_NVTX)),
                    (module, "push_range", self._beginning(_pushed, _NVTX)),
                    (module, "pop_range", self._ending(_NVTX)),
                ):
                    if hasattr(owner, name):
                        stack.enter_context(patched(owner, name, wrap))

            stack.enter_context(replaced(nvtx, "_nvtx", _TorchNvtx(nvtx._nvtx, self)))
            functions = self._beginning(lambda function: function.name, _FUNCTION)
            stack.enter_context(patched(record_function, "__enter__", functions))
            stack.enter_context(patched(record_function, "__exit__", self._ending(_FUNCTION)))
            stack.enter_context(after_import("nvtx", package))
            self._open = True
            stack.callback(setattr, self, "_open", False)
            yield

    def push(self, name: object, source: str = _NVTX) -> None:
        """A range begins on this thread."""
        if self._open:
            self._scopes.begin(str(name), source)

    def pop(self, source: str = _NVTX) -> None:
        if self._open:
            self._scopes.end_innermost(source)

    def start(self, handle: Any, name: object) -> None:
        """A range begins that any thread may end, by its handle."""
        row = self._scopes.begin(str(name), _NVTX, nested=False) if self._open else None
        if row is not None:
            self._started[handle] = row

    def stop(self, handle: Any) -> None:
        row = self._started.pop(handle, None)
        if row is not None:
            self._scopes.leave(row)

    def _beginning(self, name: Callable[..., object], source: str) -> Callable[[Method], Method]:
        """Wraps what begins a range. name: of the range, by the arguments."""

        def wrap(original: Method) -> Method:
            def begin(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                self.push(name(*args, **kwargs), source)
                return result

            return begin

        return wrap

    def _ending(self, source: str) -> Callable[[Method], Method]:
        def wrap(original: Method) -> Method:
            def end(*args: Any, **kwargs: Any) -> Any:
                self.pop(source)
                return original(*args, **kwargs)

            return end

        return wrap


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
        self._ranges.start(handle, message)
        return handle

    def rangeEnd(self, handle: Any) -> None:  # noqa: N802
        self._behind.rangeEnd(handle)
        self._ranges.stop(handle)


def _annotated(annotation: Any) -> object:
    """The text of an `nvtx.annotate`, which versions keep in different places; "" if it has none."""
    given = getattr(annotation, "init_args", None)
    if given is not None:
        return given[0] or ""
    message = getattr(getattr(annotation, "attributes", None), "message", None)
    return getattr(message, "string", message or "")


def _pushed(message: Any = None, *_: Any, **__: Any) -> object:
    """That of `nvtx.push_range`."""
    return message or ""
