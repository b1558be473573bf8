"""Memory of progress marks: the counters of launches and the slots of warps, of one GPU."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.device import cuda_driver
from profscope.device.own_context import ProgramMemory, WatchedMemory
from profscope.instrument_passes.progress import COUNTERS, LAUNCH_SHIFT, MAX_LAUNCHES, SLOT, SLOTS

__all__ = ["Board", "DeviceBoard", "HostBoard"]

_COUNTER_BYTES: Final = MAX_LAUNCHES * COUNTERS.itemsize
_BYTES: Final = _COUNTER_BYTES + SLOTS * SLOT.itemsize

Slots = npt.NDArray[np.void]


class Board:
    """free: numbers that no launch has; ended: those of launches whose slots may be there still."""

    def __init__(self) -> None:
        self.free = deque(range(1, MAX_LAUNCHES))
        self.ended: set[int] = set()

    def pointer(self, number: int) -> Any:
        """The address of a launch's counters, for Triton's launcher."""
        raise NotImplementedError

    def look(self) -> tuple[Slots, Slots]:
        """COUNTERS by the launch's number, and the slots, as they are now. Raises RuntimeError if the device
        has faulted."""
        raise NotImplementedError

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes of the program's memory; None if they cannot be read."""
        raise NotImplementedError


def _parts(memory: npt.NDArray[np.uint8]) -> tuple[Slots, Slots]:
    """The counters and the slots in a board's memory."""
    return memory[:_COUNTER_BYTES].view(COUNTERS), memory[_COUNTER_BYTES:_BYTES].view(SLOT)


def _numbered(slots_address: int) -> npt.NDArray[np.void]:
    """COUNTERS of all launches, as they begin."""
    counters = np.zeros(MAX_LAUNCHES, COUNTERS)
    counters["slots"] = np.arange(MAX_LAUNCHES, dtype=np.uint64) << np.uint64(LAUNCH_SHIFT)
    counters["slots"] |= np.uint64(slots_address)
    return counters


class HostBoard(Board):
    """The board of the emulator, in the host's memory."""

    def __init__(self) -> None:
        super().__init__()
        memory = np.zeros(_BYTES + SLOT.itemsize, np.uint8)
        start = -memory.ctypes.data % SLOT.itemsize
        self._memory = memory[start : start + _BYTES]
        self._counters, self._slots = _parts(self._memory)
        self._new = _numbered(self._slots.ctypes.data)

    def pointer(self, number: int) -> _Pointer:
        """As of a new launch: one that ended by an error has left its warps where they were."""
        self._counters[number] = self._new[number]
        self._slots[self._slots["launch"] == number] = 0
        return _Pointer(self._memory, self._counters[number:].ctypes.data)

    def look(self) -> tuple[Slots, Slots]:
        return _parts(self._memory.copy())

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)


class _Pointer:
    """extent: address and bytes of the memory that it points into."""

    def __init__(self, memory: npt.NDArray[np.uint8], address: int) -> None:
        self.extent = memory.ctypes.data, memory.nbytes
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class DeviceBoard(Board):
    """The board of a GPU. Raises RuntimeError if the driver has no memory for it."""

    def __init__(self, device: int) -> None:
        super().__init__()
        # In a thread of its own: the caller may be capturing a CUDA graph.
        self._memory = cuda_driver.aside(WatchedMemory, _BYTES, device)
        self._memory.write(_numbered(self._memory.address + _COUNTER_BYTES).view(np.uint8))
        self._program = ProgramMemory()

    def pointer(self, number: int) -> int:
        return self._memory.address + number * COUNTERS.itemsize

    def look(self) -> tuple[Slots, Slots]:
        return _parts(self._memory.read(_BYTES))

    def read(self, address: int, size: int) -> bytes | None:
        return self._program.read(address, size)
