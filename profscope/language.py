"""Names for parts of a kernel, and values to go with them; for Triton and Gluon kernels.

    import profscope.language as psl

    @triton.jit
    def kernel(...):
        for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
            with psl.scope("tile", tile=tile):
                ...

In a session a scope becomes spans around the ops that came from it, wherever the optimiser took them
(docs/scopes.md). Without one, none of this emits anything: the binary is that of the kernel without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import triton.language as tl

from profscope.instrument_passes.manifest import RESERVED
from profscope.instrument_passes.scopes import marker_text

__all__ = ["enter_scope", "exit_scope", "mark", "payload", "scope"]

# An attribute that `RecordingStages` gives to the options of one compilation: it takes the markers out again.
RECORDING: Final = "profscope_recording"


def _builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function callable from kernels; Triton passes `_semantic`, its interpreter does not."""
    function.__triton_builtin__ = True  # type: ignore[attr-defined]
    return function


@_builtin
def enter_scope(name: str, _semantic: Any = None) -> None:
    """Begin a scope. `name` is text known at compile time; `exit_scope(name)` must follow in the same block.

    In a session, compiling raises CompileError for a scope that is not closed, closed twice, or crossed.
    """
    _mark_point("enter", _text("scope", name), _semantic)


@_builtin
def exit_scope(name: str, _semantic: Any = None) -> None:
    """End the scope `name`, which must be the innermost one that is open."""
    _mark_point("exit", _text("scope", name), _semantic)


@_builtin
def scope(name: str, _semantic: Any = None, **payloads: Any) -> _Scope:
    """A scope as a context manager: `with scope("load", k=k):`. Each keyword is a `payload` of it."""
    return _Scope(_text("scope", name), payloads, _semantic)


@_builtin
def mark(name: str, _semantic: Any = None) -> None:
    """A point in time, kind "mark": when the warp passes here, in order with stores, atomics and barriers."""
    _keep("mark", _text("mark", name), None, _semantic)


@_builtin
def payload(name: str, value: Any, _semantic: Any = None) -> None:
    """Column `name` of the innermost scope's span gets `value`, a scalar.

    Integers of at most 32 bits are stored as int32, floats of at most 32 bits as float32. Raises a
    compilation error for other types, and for a name that is no identifier or a column already.
    """
    name = _text("payload", name)
    if not name.isidentifier() or name in RESERVED:
        raise ValueError(f"{name!r} cannot be the name of a column; take an identifier that is none yet")
    _keep("payload", name, value, _semantic)


class _Scope:
    def __init__(self, name: str, payloads: dict[str, Any], semantic: Any) -> None:
        self._name = name
        self._payloads = payloads
        self._semantic = semantic

    def __enter__(self) -> None:
        enter_scope(self._name, _semantic=self._semantic)
        for name, value in self._payloads.items():
            payload(name, value, _semantic=self._semantic)

    def __exit__(self, *error: object) -> None:
        exit_scope(self._name, _semantic=self._semantic)


def _recording(semantic: Any) -> bool:
    """Whether the kernel that is being compiled is compiled in a session."""
    return semantic is not None and hasattr(semantic.builder.options, RECORDING)


def _mark_point(do: str, name: str, semantic: Any) -> None:
    """A marker that is taken out before any optimisation."""
    if _recording(semantic):
        builder = semantic.builder
        builder.create_inline_asm(marker_text(do, name), "=r", [], [builder.get_int1_ty()], False, 1)


def _keep(do: str, name: str, value: Any, semantic: Any) -> None:
    """A marker that lives through the optimisations: an assumption, which even the pipeliner can move."""
    handles, constraints = [], "=r"
    if do == "payload":
        value = _checked(name, value)
        constraints = "=r,r"
    if not _recording(semantic):
        return
    if do == "payload":
        handles.append(_word(value, semantic).handle)
    builder = semantic.builder
    marker = builder.create_inline_asm(
        marker_text(do, name), constraints, handles, [builder.get_int1_ty()], True, 1
    )
    builder.create_assume(marker.get_result(0))


def _text(what: str, name: Any) -> str:
    name = getattr(name, "value", name)  # of a constexpr
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a {what} must be text that is known at compile time, not {name!r}")
    return name


def _checked(name: str, value: Any) -> Any:
    """A scalar that fits into 32 bits, as it was given."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
            raise ValueError(f"payload {name!r} does not fit into 32 bits: {value}")
        return value
    kind = value.type if isinstance(value, tl.tensor) else None
    numeric = kind is not None and (kind.is_int() or kind.is_floating())
    if kind is None or not numeric or kind.primitive_bitwidth > 32:
        what = repr(value) if kind is None else kind
        raise TypeError(
            f"payload {name!r} must be a scalar of at most 32 bits, not {what}; cast it to tl.int32 or "
            "tl.float32, or reduce it"
        )
    return value


def _word(value: Any, semantic: Any) -> Any:
    """The value as an i32 or f32."""
    if not isinstance(value, tl.tensor):
        return semantic.to_tensor(value if isinstance(value, float) else int(value))
    wanted = tl.float32 if value.type.is_floating() else tl.int32
    return semantic.cast(value, wanted)
