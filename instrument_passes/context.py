"""What passes know beyond the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from instrument_passes.functions import Function

__all__ = ["TRITONS", "PassContext"]

TRITONS: Final = ((3, 6), (3, 7), (3, 8), (3, 9))  # (major, minor) of those that profscope knows


@dataclass(frozen=True)
class PassContext:
    """triton: (major, minor) of the Triton that will compile the module. functions: those that the module
    was made of; without them call paths lack names.
    """

    triton: tuple[int, int] = (3, 7)
    functions: tuple[Function, ...] = ()
