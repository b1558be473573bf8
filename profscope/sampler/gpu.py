"""What witnesses ask of the CUDA driver. Needs no torch."""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from profscope.sampler.cupti import WAITER, SamplerError

__all__ = ["Cuda"]

_NO_TIMES: Final = 2  # CU_EVENT_DISABLE_TIMING
_NOT_READY: Final = 600  # CUDA_ERROR_NOT_READY
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_UNSUPPORTED: Final = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: someone captures a CUDA graph


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

    @contextlib.contextmanager
    def so_far(self, stream: int) -> Iterator[Callable[[], bool]]:
        """For the body of a with statement what tells whether that which the stream holds now has ended.

        To ask keeps nobody from launching, other than to wait beside a sampler that runs.
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
        if context not in self._waiters:
            self._waiters[context] = _Waiter(self._driver, context)
        return self._waiters[context].idle(limit_s)

    def close(self) -> None:
        """End the threads that wait."""
        for waiter in self._waiters.values():
            waiter.close()
        self._waiters.clear()


class _Waiter:
    """Waits for a context in a thread of its own, which goes on where the one that asks has no more time."""

    def __init__(self, driver: Any, context: int) -> None:
        self._driver = driver
        self._context = context
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: nothing more
        self._answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._waiting = False  # for an answer that has been asked for
        threading.Thread(target=self._run, name=WAITER, daemon=True).start()

    def idle(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
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
