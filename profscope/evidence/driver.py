"""What evidence asks of the CUDA driver and of NVIDIA's management library. Needs no torch."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from profscope.sampler.cupti import SamplerError
from profscope.sampler.gpu import Cuda

__all__ = ["Driver", "Machine"]

_NOT_CAPTURING: Final = 0  # CU_STREAM_CAPTURE_STATUS_NONE
_SM_CLOCK: Final = 1  # NVML_CLOCK_SM
_BUS_ID_BYTES: Final = 32


class Machine(Protocol):
    """context: of the thread that asks, 0 if it has none. device: the number of its GPU. clock_mhz: of the
    GPU's SMs now, 0 if unknown. capturing: whether the stream is captured into a CUDA graph. so_far: whether
    what a stream holds has ended, however it did. idle: whether
    all work of the context ends within seconds, for which it waits; raises SamplerError if the device has
    faulted. entered: for the body of a with statement, this thread has that context. close: nothing is asked
    any more."""

    def context(self) -> int: ...

    def device(self) -> int: ...

    def clock_mhz(self) -> int: ...

    def capturing(self, stream: int) -> bool: ...

    def so_far(self, stream: int) -> contextlib.AbstractContextManager[Callable[[], bool]]: ...

    def idle(self, limit_s: float) -> bool: ...

    def entered(self, context: int) -> contextlib.AbstractContextManager[None]: ...

    def close(self) -> None: ...


class Driver(Cuda):
    """The driver of this process. Raises SamplerError if there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._nvml: Any = None
        self._handles: dict[int, ctypes.c_void_p] = {}  # by device: NVML's

    def device(self) -> int:
        device = ctypes.c_int()
        if self._driver.cuCtxGetDevice(ctypes.byref(device)):
            raise SamplerError("this thread has no CUDA context yet; use the GPU first")
        return device.value

    def clock_mhz(self) -> int:
        """See `Machine`. Takes some 10 us, and some milliseconds when it is first asked."""
        device = self.device()
        if device not in self._handles:
            self._handles[device] = self._handle(device)
        clock = ctypes.c_uint()
        handle = self._handles[device]
        if not handle or self._nvml.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(clock)):
            return 0
        return clock.value

    def capturing(self, stream: int) -> bool:
        status = ctypes.c_int()
        failed = self._driver.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
        return bool(failed) or status.value != _NOT_CAPTURING

    @contextlib.contextmanager
    def entered(self, context: int) -> Iterator[None]:
        """See `Machine`."""
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
