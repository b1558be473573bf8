"""One launch after the other under the sampler, without ever letting a job stand.

The sampler runs from right before a launch until the launch has ended, for which the launching thread waits.
Kernels are not run one after another for it (CUPTI's continuous mode), so that two which wait for one another
still can. But the thread that waits launches nothing meanwhile, and so it waits for no longer than a limit:
then it goes on, and that kernel is left alone from then on.
"""

from __future__ import annotations

import contextlib
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
        self._opened = contextlib.ExitStack()
        self._closed = False
        self._pid = os.getpid()

    def open(self, kernel: str) -> bool:
        """Whether a launch of the kernel by this thread can be sampled; opens the sampler for that."""
        if self.why or kernel in self.left_alone or os.getpid() != self._pid:
            return False
        with self._lock:
            return not self._busy and self._probe() is not None

    def sample(
        self, kernel: str, stream: int, period_log2: int, launch: Callable[[], Any]
    ) -> tuple[Any, Samples | None]:
        """What `launch` returns, and what was sampled meanwhile, other kernels' samples among it; None if
        nothing could be. Raises what `launch` does."""
        if not self._lock.acquire(timeout=self._limit_s):
            self.unsampled["other launches were being sampled"] += 1
            return launch(), None
        try:
            probe = None if self._busy else self._probe()
            if probe is None:
                return launch(), None
            self._busy = True
            try:
                return self._sampled(probe, kernel, stream, period_log2, launch)
            finally:
                self._busy = False
        finally:
            self._lock.release()

    def crc(self, cubin: bytes) -> int:
        """What records have in place of a cubin. Raises SamplerError."""
        with self._lock:
            probe = self._probe()
            if probe is None:
                raise SamplerError(self.why)
            return probe.crc(cubin)

    def close(self) -> None:
        """Give the sampler back; nothing is sampled any more. In a forked process, nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            self._probes.clear()
            self._opened.close()

    def _probe(self) -> Probe | None:
        """The sampler of this thread's context; None, and `why` says it, where there is none."""
        context = self._gpu.context()
        if not self._closed and not self.why and context not in self._probes:
            try:
                opened = self._gpu.probe()
                self._probes[context] = opened.__enter__()
                self._opened.push(_quietly(opened.__exit__))
            except SamplerError as error:
                self._fail(error)
        return self._probes.get(context)

    def _sampled(
        self, probe: Probe, kernel: str, stream: int, period_log2: int, launch: Callable[[], Any]
    ) -> tuple[Any, Samples | None]:
        with self._gpu.beside():
            if not self._ended(stream):  # its samples would be those of what is before it, too
                self.unsampled[f"their stream was not done after {self._limit_s:g} s"] += 1
                return launch(), None
            try:
                probe.set_period(period_log2)
                probe.start()
            except SamplerError as error:
                self._fail(error)
                return launch(), None
            ended = False
            try:
                result = launch()
                ended = self._ended(stream)
            finally:
                samples = self._stopped(probe)
            if ended:
                return result, samples
            self.left_alone[kernel] = (
                f"a launch had not ended after {self._limit_s:g} s; kernels that wait for others' launches "
                "cannot be sampled"
            )
            return result, None

    def _stopped(self, probe: Probe) -> Samples | None:
        try:
            return probe.stop()
        except SamplerError as error:
            self._fail(error)
            return None

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

    def _fail(self, error: SamplerError) -> None:
        self.why = self.why or str(error)
        self._probes.clear()
        self._opened.close()


def _quietly(leave: Callable[..., Any]) -> Callable[..., Any]:
    """A device that has faulted cannot be told to stop sampling; its user is told of the fault."""

    def left(*error: Any) -> None:
        with contextlib.suppress(SamplerError):
            leave(*error)

    return left
