"""Device memory that the host can read whatever its program waits for.

A thread that waits for a kernel in the driver (a full queue, a module that is loaded, memory that is freed)
holds the lock of its context, and other threads' copies in that context wait with it. So this memory is
mapped for the device and not for a context, and is copied in a context of its own: on an H200 in 0.1 ms in
each of these cases (2026-11-30, `python -m bench.hangs`).

The program's own memory can be read in the program's context only, so such a read may have to be given up.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.device.cuda_driver import check, driver
from profscope.threads import daemon

__all__ = ["ProgramMemory", "WatchedMemory"]

_READ_S: Final = 0.5
_ON_DEVICE: Final = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_PINNED: Final = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_READ_WRITE: Final = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_SMALLEST: Final = 0  # CU_MEM_ALLOC_GRANULARITY_MINIMUM
_NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING
_PORTABLE: Final = 1  # CU_MEMHOSTALLOC_PORTABLE


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class WatchedMemory:
    """So many bytes of a device, zero at first. Thread-safe.

    address: on the device, for kernels of any context. Raises RuntimeError with the driver's name of an
    error.
    """

    def __init__(self, size: int, device: int) -> None:
        self._lock = threading.Lock()
        self._device = device
        where = _Location(_ON_DEVICE, device)
        properties = _Properties(type=_PINNED, location=where)
        step = ctypes.c_size_t()
        _call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(properties), _SMALLEST)
        self._size = ctypes.c_size_t(-(-size // step.value) * step.value)
        self._handle, at = ctypes.c_uint64(), ctypes.c_uint64()
        none, start = ctypes.c_uint64(0), ctypes.c_size_t(0)
        _call("cuMemCreate", ctypes.byref(self._handle), self._size, ctypes.byref(properties), none)
        _call("cuMemAddressReserve", ctypes.byref(at), self._size, start, none, none)
        _call("cuMemMap", at, self._size, start, self._handle, none)
        access = _Access(where, _READ_WRITE)
        _call("cuMemSetAccess", at, self._size, ctypes.byref(access), ctypes.c_size_t(1))
        self.address = int(at.value)
        self._context, self._stream, pinned = _own_context(device), ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuCtxPushCurrent_v2", self._context)
        try:
            _call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
            _call("cuMemHostAlloc", ctypes.byref(pinned), self._size, _PORTABLE)
        finally:
            _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        text = (ctypes.c_ubyte * self._size.value).from_address(pinned.value or 0)
        self._host: npt.NDArray[np.uint8] = np.ctypeslib.as_array(text)
        self._host[:] = 0
        self.write(self._host)

    def write(self, data: npt.NDArray[np.uint8]) -> None:
        """Copy to the memory's beginning."""
        with self._lock:
            self._host[: data.nbytes] = data
            self._copied("cuMemcpyHtoDAsync_v2", self.address, self._host.ctypes.data, data.nbytes)

    def read(self, size: int) -> npt.NDArray[np.uint8]:
        """A copy of the memory's beginning."""
        with self._lock:
            self._copied("cuMemcpyDtoHAsync_v2", self._host.ctypes.data, self.address, size)
            return self._host[:size].copy()

    def _copied(self, function: str, to: int, source: int, size: int) -> None:
        _call("cuCtxPushCurrent_v2", self._context)
        try:
            _call(function, ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), self._stream)
            _call("cuStreamSynchronize", self._stream)
        finally:
            _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@cache
def _own_context(device: int) -> ctypes.c_void_p:
    """One for all sessions: each takes much of the device's memory."""
    context = ctypes.c_void_p()
    _call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    return context


class ProgramMemory:
    """Reads a device's memory in the calling thread's context, which is the program's, from other threads.
    Raises RuntimeError as `WatchedMemory` does."""

    def __init__(self) -> None:
        self._context, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._is_blocked = False
        _call("cuCtxGetCurrent", ctypes.byref(self._context))
        _call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes at an address; None if they cannot be read, or not within half a second."""
        if self._is_blocked:
            return None
        found: list[bytes] = []
        thread = daemon("memory", self._read, address, size, found)
        if thread is not None:
            thread.join(_READ_S)
            self._is_blocked = thread.is_alive()
        return found[0] if found else None

    def _read(self, address: int, size: int, found: list[bytes]) -> None:
        host = ctypes.create_string_buffer(size)
        with contextlib.suppress(RuntimeError):  # such as memory that is mapped no more
            _call("cuCtxSetCurrent", self._context)
            target = ctypes.cast(host, ctypes.c_void_p)
            _call(
                "cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(size), self._stream
            )
            _call("cuStreamSynchronize", self._stream)
            found.append(host.raw)


def _call(function: str, *arguments: Any) -> None:
    check(function, getattr(driver(), function)(*arguments))
