"""Scopes of kernels written for Proton's `triton.profiler.language`, in a session of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from profscope import language

__all__ = ["proton_scopes"]


@contextlib.contextmanager
def proton_scopes() -> Iterator[None]:
    """For the body of a with statement, Proton's scopes are ours too, in kernels that a session compiles.

    All of them go through one function of Proton's on every Triton from 3.6 to 3.9. Proton's own
    instrumentation, where it is on, keeps getting them as well.
    """
    try:
        from triton.profiler import language as proton
    except ImportError:  # a Triton that was built without Proton
        yield
        return
    own = proton.record

    def record(is_start: Any, scope_name: Any, semantic: Any) -> Any:
        do = language.enter_scope if getattr(is_start, "value", is_start) else language.exit_scope
        do(scope_name, _semantic=semantic)
        return own(is_start, scope_name, semantic)

    proton.record = record
    try:
        yield
    finally:
        proton.record = own
