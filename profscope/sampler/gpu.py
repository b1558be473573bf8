"""What sampling asks of a GPU, and the CUDA driver that answers. Needs no torch."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from profscope.sampler.cupti import SamplerError
from profscope.sampler.sampler import Sampler, Samples

__all__ = ["Cuda", "Gpu", "Probe"]

_NO_TIMES: Final = 2  # CU_EVENT_DISABLE_TIMING
_NOT_READY: Final = 600  # CUDA_ERROR_NOT_READY
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Probe(Protocol):
    """The sampler of one context; see `sampler.Sampler`."""

    def set_period(self, period_log2: int) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> Samples: ...

    def crc(self, cubin: bytes) -> int: ...


class Gpu(Protocol):
    """context: what tells the contexts of this process apart, of the thread that asks. probe: opens the
    sampler of that context; raises SamplerError. so_far: whether what a stream holds has ended, however it
    did. beside: in its body the thread may ask that while another one captures a CUDA graph."""

    def context(self) -> int: ...

    def probe(self) -> AbstractContextManager[Probe]: ...

    def so_far(self, stream: int) -> AbstractContextManager[Callable[[], bool]]: ...

    def beside(self) -> AbstractContextManager[None]: ...


class Cuda:
    """The driver of this process. Raises SamplerError where there is none."""

    def __init__(self) -> None:
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(str(error)) from error

    def context(self) -> int:
        """The current context of this thread; 0 if it has none."""
        context = ctypes.c_void_p()
        self._driver.cuCtxGetCurrent(ctypes.byref(context))
        return context.value or 0

    def probe(self) -> Sampler:
        """The sampler of the current context, closed."""
        return Sampler()

    @contextlib.contextmanager
    def so_far(self, stream: int) -> Iterator[Callable[[], bool]]:
        """For the body of a with statement what tells whether that which the stream holds now has ended.

        A context that has faulted ends all at once: who uses it next is told of it.
        """
        event = ctypes.c_void_p()
        failed = self._driver.cuEventCreate(ctypes.byref(event), _NO_TIMES)
        failed = failed or self._driver.cuEventRecord(event, ctypes.c_void_p(stream))
        try:
            yield lambda: bool(failed or self._driver.cuEventQuery(event) != _NOT_READY)
        finally:
            self._driver.cuEventDestroy_v2(event)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """To ask for events would else break the capture of another thread."""
        mode = ctypes.c_int(_RELAXED)
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
