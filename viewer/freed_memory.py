"""What becomes of the memory that a process frees."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES: Final = (1 << 31) - 1  # all that mallopt(3) can say
_TOGETHER_BYTES: Final = 1 << 25
"""The most that glibc lets it be (DEFAULT_MMAP_THRESHOLD_MAX): larger arrays go back all the same."""


def keep_freed_memory() -> None:
    """Have this process keep what it frees, for what it asks for next.

    Numpy makes and frees an array with each step. glibc hands many of them back to the system, which clears
    what it gives anew: of ten million spans, a fifth of what a first screen took. For commands, which read a
    trace, say what is in it and end. Where there is no glibc nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _TOGETHER_BYTES)
