"""Waiting for a GPU, and no longer than for so long. The driver is made up."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Iterator

import pytest

from profscope.evidence.cupti import SamplerError
from profscope.evidence.driver import Driver as Cuda

FOREVER_S = 60.0


class Driver:
    """results: of cuCtxSynchronize, which waits for the next one."""

    def __init__(self) -> None:
        self.results: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.here = 0x10
        self.events: dict[int, int] = {}  # by stream, what a query of the event that was recorded there says
        self.synchronized: list[int] = []
        self.thread = threading.local()

    def cuEventCreate(self, event: ctypes.c_void_p, flags: int) -> int:  # noqa: N802
        return 0

    def cuEventRecord(self, event: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:  # noqa: N802
        self.events[stream.value or 0] = 600
        return 0

    def cuEventQuery(self, event: ctypes.c_void_p) -> int:  # noqa: N802
        return next(iter(self.events.values()))

    def cuEventDestroy_v2(self, event: ctypes.c_void_p) -> None:  # noqa: N802
        self.events.clear()

    def cuCtxGetCurrent(self, context: ctypes.c_void_p) -> None:  # noqa: N802
        ctypes.cast(context, ctypes.POINTER(ctypes.c_void_p))[0] = self.here

    def cuThreadExchangeStreamCaptureMode(self, mode: ctypes.c_int) -> None:  # noqa: N802
        self.thread.relaxed = True

    def cuCtxSetCurrent(self, context: ctypes.c_void_p) -> None:  # noqa: N802
        self.thread.context = context.value

    def cuCtxSynchronize(self) -> int:  # noqa: N802
        assert self.thread.relaxed
        self.synchronized.append(self.thread.context)
        return self.results.get()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver()
    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda name: made)
        yield made
    for thread in set(threading.enumerate()) - before:
        thread.join(FOREVER_S)
        assert not thread.is_alive()


def test_it_waits_in_another_thread_and_goes_on_where_that_takes_too_long(driver: Driver) -> None:
    gpu = Cuda()
    driver.results.put(0)
    assert gpu.idle(FOREVER_S)
    assert not gpu.idle(0.01)
    assert not gpu.idle(0.01)
    assert driver.synchronized == [0x10] * 2  # the third asked for nothing: the second still waits
    driver.results.put(0)
    assert not gpu.idle(0.2)  # it was idle once, and may not be any more
    assert driver.synchronized == [0x10] * 3
    for _ in range(2):
        driver.results.put(0)
    assert gpu.idle(FOREVER_S)
    assert driver.synchronized == [0x10] * 4
    gpu.close()


def test_each_context_is_waited_for_by_itself(driver: Driver) -> None:
    gpu = Cuda()
    assert not gpu.idle(0.01)
    driver.here = 0x20
    assert gpu.context() == 0x20
    assert not gpu.idle(0.01)
    for _ in range(4):
        driver.results.put(0)
    assert gpu.idle(FOREVER_S)
    driver.here = 0x10
    assert gpu.idle(FOREVER_S)
    assert sorted(driver.synchronized) == [0x10] * 2 + [0x20] * 2
    gpu.close()


def test_a_fault_is_told_from_a_busy_gpu_and_from_a_capture(driver: Driver) -> None:
    gpu = Cuda()
    driver.results.put(900)  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert not gpu.idle(FOREVER_S)
    driver.results.put(700)  # CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(SamplerError, match="the device has faulted \\(CUDA error 700\\)"):
        gpu.idle(FOREVER_S)
    gpu.close()


def test_a_stream_is_asked_and_not_waited_for(driver: Driver) -> None:
    gpu = Cuda()
    with gpu.so_far(7) as ended:
        assert not ended()
        driver.events[7] = 0
        assert ended()
        driver.events[7] = 700  # a fault: who uses the device next is told of it
        assert ended()
    assert driver.events == {}
    assert driver.synchronized == []
