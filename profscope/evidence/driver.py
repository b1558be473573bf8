"""Calls of the CUDA driver and of NVIDIA's management library for evidence. Needs no torch."""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from profscope.evidence.cupti import WAITER, SamplerError
from profscope.threads import daemon

__all__ = ["Driver"]

_NO_TIMES: Final = 2  # CU_EVENT_DISABLE_TIMING
_NOT_READY: Final = 600  # CUDA_ERROR_NOT_READY
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_UNSUPPORTED: Final = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: someone captures a CUDA graph
_NOT_CAPTURING: Final = 0  # CU_STREAM_CAPTURE_STATUS_NONE
_SM_CLOCK: Final = 1  # NVML_CLOCK_SM
_BUS_ID_BYTES: Final = 32


class Driver:
    """The driver of this process. Thread-safe. Raises SamplerError if there is none."""

    def __init__(self) -> None:
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(str(error)) from error
        self._waiters: dict[int, _Waiter] = {}  # by context
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._handles: dict[int, ctypes.c_void_p] = {}  # by device: NVML's

    def context(self) -> int:
        """The current context of this thread; 0 if it has none."""
        context = ctypes.c_void_p()
        self._driver.cuCtxGetCurrent(ctypes.byref(context))
        return context.value or 0

    @contextlib.contextmanager
    def so_far(self, stream: int) -> Iterator[Callable[[], bool]]:
        """For the body of a with statement what tells whether that which the stream holds now has ended,
        however it did.

        Asking does not block launches, unlike waiting beside a running sampler.
        """
        event = ctypes.c_void_p()
        failed = self._driver.cuEventCreate(ctypes.byref(event), _NO_TIMES)
        failed = failed or self._driver.cuEventRecord(event, ctypes.c_void_p(stream))
        try:
            yield lambda: bool(failed or self._driver.cuEventQuery(event) != _NOT_READY)
        finally:
            self._driver.cuEventDestroy_v2(event)

    def idle(self, limit_s: float) -> bool:
        """Whether all that the context holds ends within seconds, for which it waits; raises SamplerError if
        the device has faulted. Not while someone captures a CUDA graph."""
        context = self.context()
        with self._lock:
            if context not in self._waiters:
                self._waiters[context] = _Waiter(self._driver, context)
        return self._waiters[context].idle(limit_s)

    def close(self) -> None:
        """End the threads that wait."""
        for waiter in self._waiters.values():
            waiter.close()
        self._waiters.clear()

    def device(self) -> int:
        """The number of this thread's GPU."""
        device = ctypes.c_int()
        if self._driver.cuCtxGetDevice(ctypes.byref(device)):
            raise SamplerError("this thread has no CUDA context yet; use the GPU first")
        return device.value

    def clock_mhz(self) -> int:
        """Of the GPU's SMs now, 0 if unknown. Takes some 10 us, some milliseconds when it is first asked."""
        device = self.device()
        if device not in self._handles:
            self._handles[device] = self._handle(device)
        clock = ctypes.c_uint()
        handle = self._handles[device]
        if not handle or self._nvml.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(clock)):
            return 0
        return clock.value

    def capturing(self, stream: int) -> bool:
        """Whether the stream is captured into a CUDA graph."""
        status = ctypes.c_int()
        failed = self._driver.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
        return bool(failed) or status.value != _NOT_CAPTURING

    @contextlib.contextmanager
    def entered(self, context: int) -> Iterator[None]:
        """For the body of a with statement, this thread has that context."""
        self._driver.cuCtxPushCurrent_v2(ctypes.c_void_p(context))
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _handle(self, device: int) -> ctypes.c_void_p:
        """NVML's handle of a device, which CUDA and NVML number in orders of their own; null if unknown."""
        handle = ctypes.c_void_p()
        if self._nvml is None:
            try:
                self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            except OSError:
                return handle
            self._nvml.nvmlInit_v2()
        bus = ctypes.create_string_buffer(_BUS_ID_BYTES)
        if not self._driver.cuDeviceGetPCIBusId(bus, _BUS_ID_BYTES, device):
            self._nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle))
        return handle


class _Waiter:
    """Waits for a context in a thread of its own, which goes on where the one that asks has no more time."""

    def __init__(self, driver: Any, context: int) -> None:
        self._driver = driver
        self._context = context
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: nothing more
        self._answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._waiting = False  # for an answer that has been asked for
        self._lock = threading.Lock()  # of those who ask
        daemon(WAITER, self._run)

    def idle(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        if not self._lock.acquire(timeout=limit_s):
            return False
        try:
            return self._asked_until(deadline)
        finally:
            self._lock.release()

    def _asked_until(self, deadline: float) -> bool:
        limit_s = max(deadline - time.monotonic(), 0.0)
        if self._waiting and self._answer(limit_s) is None:
            return False
        self._asked.put(True)  # what was asked for before may have been answered long ago
        self._waiting = True
        result = self._answer(max(deadline - time.monotonic(), 0.0))
        if result not in (None, 0, _UNSUPPORTED):
            raise SamplerError(f"the device has faulted (CUDA error {result})")
        return result == 0

    def _answer(self, limit_s: float) -> int | None:
        try:
            result = self._answers.get(timeout=limit_s)
        except queue.Empty:
            return None
        self._waiting = False
        return result

    def close(self) -> None:
        self._asked.put(False)

    def _run(self) -> None:
        mode = ctypes.c_int(_RELAXED)  # or else this would break another thread's capture
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        self._driver.cuCtxSetCurrent(ctypes.c_void_p(self._context))
        while self._asked.get():
            self._answers.put(self._driver.cuCtxSynchronize())
