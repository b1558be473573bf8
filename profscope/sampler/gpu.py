"""What sampling asks of a GPU, and the CUDA driver that answers. Needs no torch."""

from __future__ import annotations

import ctypes
import queue
import threading
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from profscope.sampler.cupti import SamplerError
from profscope.sampler.sampler import Sampler, Samples

__all__ = ["Cuda", "Gpu", "Probe"]

_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_UNSUPPORTED: Final = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: someone captures a CUDA graph


class Probe(Protocol):
    """The sampler of one context; see `sampler.Sampler`."""

    def set_period(self, period_log2: int) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> Samples: ...


class Gpu(Protocol):
    """context: what tells the contexts of this process apart, of the thread that asks. probe: opens the
    sampler of that context; raises SamplerError. idle: whether all that it holds ends within seconds, for
    which it waits; raises SamplerError where the device has faulted."""

    def context(self) -> int: ...

    def probe(self) -> AbstractContextManager[Probe]: ...

    def idle(self, limit_s: float) -> bool: ...


class Cuda:
    """The driver of this process. Raises SamplerError where there is none."""

    def __init__(self) -> None:
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(str(error)) from error
        self._waiters: dict[int, _Waiter] = {}

    def context(self) -> int:
        """The current context of this thread; 0 if it has none."""
        context = ctypes.c_void_p()
        self._driver.cuCtxGetCurrent(ctypes.byref(context))
        return context.value or 0

    def probe(self) -> Sampler:
        """The sampler of the current context, closed."""
        return Sampler()

    def idle(self, limit_s: float) -> bool:
        """See `Gpu`. Not while someone captures a CUDA graph."""
        context = self.context()
        if context not in self._waiters:
            self._waiters[context] = _Waiter(self._driver, context)
        return self._waiters[context].idle(limit_s)


class _Waiter:
    """Waits for a context in a thread of its own, which goes on where the one that asks has no more time."""

    def __init__(self, driver: Any, context: int) -> None:
        self._driver = driver
        self._context = context
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._waiting = False  # for an answer that has been asked for
        threading.Thread(target=self._run, name="profscope-idle", daemon=True).start()

    def idle(self, limit_s: float) -> bool:
        if not self._waiting:
            self._asked.put(None)
        self._waiting = True
        try:
            result = self._answers.get(timeout=limit_s)
        except queue.Empty:
            return False
        self._waiting = False
        if result not in (0, _UNSUPPORTED):
            raise SamplerError(f"the device has faulted (CUDA error {result})")
        return result == 0

    def _run(self) -> None:
        mode = ctypes.c_int(_RELAXED)  # or else this would break another thread's capture
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        self._driver.cuCtxSetCurrent(ctypes.c_void_p(self._context))
        while True:
            self._asked.get()
            self._answers.put(self._driver.cuCtxSynchronize())
