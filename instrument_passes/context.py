"""What passes know beyond the module."""

from __future__ import annotations

from dataclasses import dataclass

from instrument_passes.functions import Function

__all__ = ["PassContext"]


@dataclass(frozen=True)
class PassContext:
    """triton: (major, minor) of the Triton that will compile the module. buffer: a loop whose trip count is
    static and whose records per warp are at most this many gets room for all of them; others get a ring.
    functions: those that the module was made of; without them call paths lack names.
    """

    triton: tuple[int, int] = (3, 7)
    buffer: int = 8192
    functions: tuple[Function, ...] = ()
