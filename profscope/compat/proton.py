"""Triton's own tools for kernels: Proton's scopes, and the sanitizers that share the profile buffer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from profscope import language
from profscope.compat.patches import patched

__all__ = ["conflict", "proton_scopes"]

_SCRATCH: Final = "it keeps data of its own in the profile buffer, which holds the records"
_SHADOW: Final = "it checks accesses against shadow memory, which profscope's buffers do not have"
# Mode of TRITON_INSTRUMENTATION_MODE -> Triton version -> why no kernel can be recorded under it. Tried on
# each version; iisan only inserts assertions, and gets along.
_REFUSED: Final[dict[str, dict[tuple[int, int], str]]] = {
    "consan": {(3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "fpsan": {(3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "gsan": {(3, 8): _SHADOW, (3, 9): _SHADOW},
}


def conflict(modes: str, triton: tuple[int, int]) -> str:
    """Why a kernel cannot be recorded under these instrumentation modes, naming the mode; "" if it can.

    As Triton reads them: names with commas between since 3.9, before that any text with the name in it.
    """
    names = {name.strip() for name in modes.split(",")}
    for mode, reasons in _REFUSED.items():
        if triton in reasons and (mode in names if triton >= (3, 9) else mode in modes):
            return (
                f"Triton's instrumentation mode {mode!r} cannot be combined with records: "
                f"{reasons[triton]}; take {mode} out of TRITON_INSTRUMENTATION_MODE "
                "(knobs.compilation.instrumentation_mode)"
            )
    return ""


@contextlib.contextmanager
def proton_scopes() -> Iterator[None]:
    """For the body of a with statement, Proton's scopes are ours too, in kernels compiled with records.

    All of them go through `record` of `triton.profiler.language` on Triton 3.6 to 3.9. Proton's own
    instrumentation, if it is on, keeps getting them as well.
    """
    try:
        from triton.profiler import language as proton
    except ImportError:  # a Triton that was built without Proton
        yield
        return

    def wrap(own: Callable[..., Any]) -> Callable[..., Any]:
        def record(is_start: Any, scope_name: Any, semantic: Any) -> Any:
            do = language.enter_scope if getattr(is_start, "value", is_start) else language.exit_scope
            do(scope_name, _semantic=semantic)
            return own(is_start, scope_name, semantic)

        return record

    with patched(proton, "record", wrap):
        yield
