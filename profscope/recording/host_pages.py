"""Memory of the host that arenas are moved to, used again once nobody holds what was in it.

A new page costs the thread that touches it first a fault, and memory that goes back to the system has all
threads of the program forget where it was. Sums are folded and gone within a second, so two of these do.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import weakref
from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["HostPages"]

Bytes = npt.NDArray[np.uint8]

_KEPT: Final = 2  # as many as there are arenas
_HUGE_PAGE_BYTES: Final = 2 << 20


class HostPages:
    """Pieces of up to so many bytes. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._free: deque[mmap.mmap] = deque()
        self._closed = False

    def take(self, size: int) -> tuple[Bytes, bool]:
        """Memory, with anything in it, and whether it is new: then a page of it exists once it is touched."""
        try:
            whole, is_new = self._free.pop(), False
        except IndexError:
            whole, is_new = _huge_pages(self._most_bytes), True
        content = (ctypes.c_uint8 * len(whole)).from_buffer(whole)  # arrays of it keep it alive
        weakref.finalize(content, self._give_back, whole).atexit = False
        memory: Bytes = np.frombuffer(memoryview(content), np.uint8)
        start = -memory.ctypes.data % _HUGE_PAGE_BYTES
        return memory[start : start + size], is_new

    def close(self) -> None:
        """Keep none any more."""
        self._closed = True
        self._free.clear()

    def _give_back(self, whole: mmap.mmap) -> None:
        if not self._closed and len(self._free) < _KEPT:
            self._free.append(whole)


def _huge_pages(size: int) -> mmap.mmap:
    """New memory in huge pages, where the system has them."""
    whole = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        whole.madvise(mmap.MADV_HUGEPAGE)
    return whole
