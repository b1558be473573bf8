"""Memory of the host that arenas are moved to, used again once nobody holds what was in it.

A new page costs the thread that touches it first a fault, and memory that goes back to the system has all
threads of the program forget where it was. Sums are folded and gone within a second, so two of these do.

pages = HostPages(128 << 20, shared=2)
memory, is_new = pages.take(1 << 20)
pages.place_of(memory[100:])            # (0, 100): the first area, for processes that were given its file
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from collections import deque
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["HostPages"]

Bytes = npt.NDArray[np.uint8]

_KEPT: Final = 2  # as many as there are arenas
_HUGE_PAGE_BYTES: Final = 2 << 20


class _Area(NamedTuple):
    """Memory that other processes can map, from the descriptor of its file."""

    file: int
    memory: mmap.mmap
    address: int


class HostPages:
    """Pieces of up to so many bytes. shared: so many of them other processes can map. Thread-safe."""

    def __init__(self, most_bytes: int, shared: int = 0) -> None:
        self._most_bytes = most_bytes
        self._areas: list[_Area] = []
        with contextlib.suppress(OSError, AttributeError):  # a system without memfd_create
            for _ in range(shared):
                self._areas.append(_shared(most_bytes))
        # Also where nobody closes it, as where a session fails to begin.
        self._close_files = weakref.finalize(self, _close, [area.file for area in self._areas])
        self._close_files.atexit = False
        self._kept = max(_KEPT, len(self._areas))
        self._free = deque(area.memory for area in self._areas)
        self._free_private = deque[mmap.mmap]()
        self._shared_ids = frozenset(map(id, self._free))
        self._untouched = set(self._shared_ids)
        self._closed = False

    @property
    def files(self) -> list[tuple[int, int]]:
        """Descriptor and bytes of the areas that other processes can map."""
        return [(area.file, self._most_bytes) for area in self._areas if not self._closed]

    def take(self, size: int) -> tuple[Bytes, bool]:
        """Memory, with anything in it, and whether it is new: then a page of it exists once it is touched."""
        whole = _popped(self._free) or _popped(self._free_private)
        is_new = whole is None or id(whole) in self._untouched
        if whole is None:
            whole = _huge_pages(self._most_bytes)
        self._untouched.discard(id(whole))
        content = (ctypes.c_uint8 * len(whole)).from_buffer(whole)  # arrays of it keep it alive
        weakref.finalize(content, self._give_back, whole).atexit = False
        memory: Bytes = np.frombuffer(memoryview(content), np.uint8)
        start = -memory.ctypes.data % _HUGE_PAGE_BYTES if len(memory) > self._most_bytes else 0
        return memory[start : start + size], is_new

    def place_of(self, memory: Bytes) -> tuple[int, int] | None:
        """Where memory that `take` gave is, as an area's number and bytes from its beginning; None where no
        other process can map it."""
        address = memory.ctypes.data
        for number, area in enumerate(self._areas):
            if 0 <= address - area.address <= self._most_bytes - len(memory):
                return number, address - area.address
        return None

    def close(self) -> None:
        """Keep none any more."""
        if self._closed:
            return
        self._closed = True
        self._free.clear()
        self._free_private.clear()
        self._close_files()

    def _give_back(self, whole: mmap.mmap) -> None:
        """Keep it: what is shared in any case, for there will be no more of it, and before what is not."""
        if self._closed:
            return
        if id(whole) in self._shared_ids:
            self._free.append(whole)
            if len(self._free) + len(self._free_private) > self._kept:
                _popped(self._free_private)
        elif len(self._free) + len(self._free_private) < self._kept:
            self._free_private.append(whole)


def _popped(kept: deque[mmap.mmap]) -> mmap.mmap | None:
    """The last one that was kept, None where there is none."""
    try:
        return kept.pop()
    except IndexError:
        return None


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _shared(size: int) -> _Area:
    """Raises OSError, or AttributeError where there is no such thing."""
    file = os.memfd_create("profscope-sums")
    try:
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
    except OSError:
        os.close(file)
        raise
    return _Area(file, memory, np.frombuffer(memory, np.uint8).ctypes.data)


def _huge_pages(size: int) -> mmap.mmap:
    """New memory in huge pages, where the system has them."""
    whole = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        whole.madvise(mmap.MADV_HUGEPAGE)
    return whole
