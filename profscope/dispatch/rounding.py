"""Has a kernel that records round as the bare one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from instrument_passes.contraction import as_bare, is_ambiguous

__all__ = ["Rounding"]

Stage = Callable[[Any, dict[str, Any]], Any]


class Rounding:
    """Of one compilation. make_llir: Triton's stage of that name.

    bare: makes a module of the kernel's TTGIR as it is before the passes; None: nothing is to be done.
    """

    def __init__(self, make_llir: Stage) -> None:
        self._make_llir = make_llir
        self._lowered = ""
        self.bare: Callable[[], Any] | None = None

    def as_bare(self, lowered: Any, metadata: dict[str, Any]) -> Any:
        """The LLVM IR of a kernel that records, with additions as the bare one has them.

        The bare one is lowered, too, where it has additions that may be rounded in either way. metadata: of
        the kernel before it was lowered.
        """
        if self.bare is None or not isinstance(lowered, str) or not is_ambiguous(lowered):
            return lowered
        self._lowered = self._lowered or str(self._make_llir(self.bare(), metadata))
        return as_bare(lowered, self._lowered)
