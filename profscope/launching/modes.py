"""Which of Triton's own instrumentation modes (sanitizers) a session can stand beside.

A mode is a name in `knobs.compilation.instrumentation_mode` (TRITON_INSTRUMENTATION_MODE). What each does was
tried on every version: since Triton 3.8 consan and fpsan keep what they know of a CTA in its profile scratch,
which then is not where the records expect it; iisan only inserts assertions, and gets along.
"""

from __future__ import annotations

from typing import Final

__all__ = ["conflict"]

_SCRATCH: Final = "it keeps data of its own in the profile buffer, which holds the records"
_EXACT: Final = "Triton 3.6 turns it off where any other mode is set, as a session must"
_SHADOW: Final = "it checks accesses against shadow memory, which profscope's buffers do not have"
# Mode -> Triton version -> why a session refuses it.
_REFUSED: Final[dict[str, dict[tuple[int, int], str]]] = {
    "consan": {(3, 6): _EXACT, (3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "fpsan": {(3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "gsan": {(3, 8): _SHADOW, (3, 9): _SHADOW},
}


def conflict(modes: str, triton: tuple[int, int]) -> str:
    """Why a session cannot stand beside the modes of a knob or option, naming the mode; "" if it can.

    As Triton reads them: names with commas between since 3.9, before that any text with the name in it.
    """
    names = {name.strip() for name in modes.split(",")}
    for mode, reasons in _REFUSED.items():
        if triton in reasons and (mode in names if triton >= (3, 9) else mode in modes):
            return (
                f"Triton's instrumentation mode {mode!r} cannot be combined with a session: "
                f"{reasons[triton]}; take {mode} out of TRITON_INSTRUMENTATION_MODE "
                "(knobs.compilation.instrumentation_mode), or run without a session"
            )
    return ""
