"""One launch after the other under the sampler, without ever letting a job stand.

The sampler runs from right before a launch until the GPU is idle again, for which the launching thread waits.
Kernels are not run one after another for that (CUPTI's continuous mode), so that two which wait for one
another still can. But CUPTI opens, stops and closes the sampler only while the GPU is idle, and waits for
that without end; and a thread that waits launches nothing meanwhile, perhaps the very kernel that another one
waits for. So the engine first waits itself, for no longer than a limit: then the launching thread goes on,
and the kernel is left alone from then on. The sampler stops when the GPU is idle again, at the next launch
that is to be sampled or at the session's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from profscope.sampler.cupti import SamplerError
from profscope.sampler.gpu import Gpu, Probe
from profscope.sampler.sampler import Samples

__all__ = ["LIMIT_S", "Engine"]

LIMIT_S: Final = 2.0
_MOST_WAITS: Final = 6  # in vain, of one kind: then nothing is sampled any more
_LAST_S: Final = 30.0  # at the session's end, which waits for what was launched anyway
_FIRST_PAUSE_S: Final = 20e-6
_LONGEST_PAUSE_S: Final = 1e-3


class Engine:
    """Thread-safe. why: nothing is sampled any more, and this is why; "" while something is. left_alone:
    kernels that are not sampled any more -> why. unsampled: why launches ran without being sampled -> how
    many."""

    def __init__(self, gpu: Gpu, limit_s: float = LIMIT_S) -> None:
        self.why = ""
        self.left_alone: dict[str, str] = {}
        self.unsampled: Counter[str] = Counter()
        self._gpu = gpu
        self._limit_s = limit_s
        self._lock = threading.RLock()
        self._busy = False  # this thread, which has the lock, is sampling a launch
        self._probes: dict[int, Probe] = {}  # by context
        self._running: set[int] = set()  # contexts whose sampler is yet to be stopped
        self._opened = contextlib.ExitStack()
        self._closed = False
        self._pid = os.getpid()

    def open(self, kernel: str) -> bool:
        """Whether a launch of the kernel by this thread can be sampled; opens the sampler for that.

        Then the GPU is idle. Binaries are loaded next, for which the driver may wait for all that runs,
        perhaps for a kernel that waits for the one to be launched.
        """
        if self.why or kernel in self.left_alone or os.getpid() != self._pid:
            return False
        if not self._lock.acquire(timeout=self._limit_s):
            return self._skip("other launches were being sampled")
        try:
            return not self._busy and self._probe() is not None and self._is_idle()
        finally:
            self._lock.release()

    def sample(
        self, kernel: str, stream: int, period_log2: int, launch: Callable[[], Any]
    ) -> tuple[Any, Samples | None]:
        """What `launch` returns, and what was sampled meanwhile, other kernels' samples among it; None if
        nothing could be. Raises what `launch` does."""
        if not self._lock.acquire(timeout=self._limit_s):
            self._skip("other launches were being sampled")
            return launch(), None
        try:
            probe = None if self._busy else self._started(period_log2)
            if probe is None:
                return launch(), None
            self._busy = True
            try:
                result = launch()
            finally:
                self._busy = False
                samples = self._stopped(probe, kernel, stream)
            return result, samples
        finally:
            self._lock.release()

    def crc(self, cubin: bytes) -> int:
        """What samples have in place of a binary. Raises SamplerError where the sampler is not open."""
        with self._lock:
            for probe in self._probes.values():
                return probe.crc(cubin)
        raise SamplerError(self.why or "the sampler is not open")

    def reopen(self) -> None:
        """Sample again after `close`, unless something has ended it for good."""
        with self._lock:
            self._closed = False

    def close(self) -> None:
        """Give the sampler back, once the GPU is idle; nothing is sampled any more. In a forked process it
        does nothing, and where the GPU stays busy it leaves the sampler open."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            if self._probes and not self._idle_at_last():
                # CUPTI goes on writing to its memory, which must never go.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._opened.pop_all()))
                self._probes.clear()
                said = f"the GPU was busy for {_LAST_S:g} s: the sampler stays open until the process ends"
                self.why = self.why or said
            self._leave()
            self._gpu.close()

    def _idle_at_last(self) -> bool:
        try:
            return self._gpu.idle(_LAST_S)
        except SamplerError:
            return True  # a device that has faulted does nothing any more

    def _probe(self) -> Probe | None:
        """The sampler of this thread's context; None where there is none, or not now."""
        context = self._gpu.context()
        if self._closed or self.why or context in self._probes:
            return self._probes.get(context)
        try:
            if not self._is_idle():
                return None
            opened = self._gpu.probe()
            probe = opened.__enter__()
            self._opened.push(_quietly(opened.__exit__))
            self._probes[context] = probe
            return probe
        except SamplerError as error:
            self._fail(error)
            return None

    def _started(self, period_log2: int) -> Probe | None:
        """The sampler of this thread's context, started on an idle GPU; None where that cannot be."""
        probe, context = self._probe(), self._gpu.context()
        if probe is None:
            return None
        try:
            if not self._is_idle():
                return None
            if context in self._running:
                self._running.discard(context)
                probe.stop()
            probe.set_period(period_log2)
            probe.start()
            self._running.add(context)
        except SamplerError as error:
            self._fail(error)
            return None
        return probe

    def _stopped(self, probe: Probe, kernel: str, stream: int) -> Samples | None:
        """What was sampled; None if the launch does not end in time, or the device has faulted."""
        try:
            if not self._ended(stream) or not self._gpu.idle(self._limit_s):
                self.left_alone[kernel] = (
                    f"a launch had not ended after {self._limit_s:g} s; kernels that wait for others cannot "
                    "be sampled"
                )
                return None
            self._running.discard(self._gpu.context())
            samples = probe.stop()
        except SamplerError as error:
            self._fail(error)
            return None
        return samples

    def _is_idle(self) -> bool:
        """Waits for that, but not for ever."""
        try:
            return self._gpu.idle(self._limit_s) or self._skip(f"the GPU was busy for {self._limit_s:g} s")
        except SamplerError as error:
            self._fail(error)
            return False

    def _ended(self, stream: int) -> bool:
        """Whether what the stream holds ends in time; waits for it."""
        begun, pause = time.monotonic(), _FIRST_PAUSE_S
        with self._gpu.so_far(stream) as ended:
            while not ended():
                if time.monotonic() - begun > self._limit_s:
                    return False
                time.sleep(pause)
                pause = min(pause * 1.25, _LONGEST_PAUSE_S)
        return True

    def _skip(self, why: str) -> bool:
        self.unsampled[why] += 1
        if self.unsampled[why] == _MOST_WAITS:  # so that no job waits for so long again and again
            self.why = self.why or f"{why}, {_MOST_WAITS} times"
        return False

    def _fail(self, error: SamplerError) -> None:
        self.why = self.why or str(error)
        self._leave()

    def _leave(self) -> None:
        for context in self._running & self._probes.keys():
            with contextlib.suppress(SamplerError):
                self._probes[context].stop()
        self._probes.clear()
        self._running.clear()
        self._opened.close()


def _quietly(leave: Callable[..., Any]) -> Callable[..., Any]:
    """A device that has faulted cannot be told to stop sampling; its user is told of the fault."""

    def left(*error: Any) -> None:
        with contextlib.suppress(SamplerError):
            leave(*error)

    return left
