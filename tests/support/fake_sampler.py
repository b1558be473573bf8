"""A GPU whose sampler says what a test wants, for sessions on the emulator and for the engine alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from profscope.sampler.cupti import SamplerError
from profscope.sampler.sampler import SAMPLE, Samples

__all__ = ["CRC", "STRANGER", "FakeGpu", "FakeProbe"]

CRC = 7
STRANGER = 8
REASONS = ("wait", "long_scoreboard")


class FakeProbe:
    """said: what it was told, in order, of all threads. per_launch: samples that each launch gives at a
    period of 2^10, of each of the functions; a stranger has as many. fails: calls that raise."""

    def __init__(
        self, functions: Sequence[str] = ("kernel",), per_launch: int = 16_000, fails: Sequence[str] = ()
    ) -> None:
        self.said: list[str] = []
        self.periods: list[int] = []
        self.fails = set(fails)
        self.functions = tuple(functions)
        self.per_launch = per_launch
        self.checksums = [CRC] * len(self.functions)  # of each of the functions; 0 if it was not seen
        self.dropped = 0
        self.unknown = 0
        self.started: int | None = None  # the thread that has
        self._period = 10

    def _say(self, what: str) -> None:
        self.said.append(what)
        if what in self.fails:
            raise SamplerError(f"{what} has failed")

    def set_period(self, period_log2: int) -> None:
        self._period = period_log2

    def start(self) -> None:
        assert self.started is None, "two launches at a time"
        self._say("start")
        self.periods.append(self._period)
        self.started = threading.get_ident()

    def stop(self) -> Samples:
        assert self.started == threading.get_ident()
        self.started = None
        self._say("stop")
        count = int(self.per_launch * 2.0 ** (10 - self._period))
        of_each = *self.functions, "stranger"
        functions = tuple(dict.fromkeys(of_each))
        rows = np.zeros(len(of_each), SAMPLE)
        rows["cubin_crc"] = [*self.checksums, STRANGER]
        rows["function"] = [functions.index(name) for name in of_each]
        rows["samples"] = count
        rows = rows[rows["cubin_crc"] != 0]
        taken = int(rows["samples"].sum())
        return Samples(rows, functions, REASONS, self._period, taken, self.dropped, self.unknown)


class FakeGpu:
    """One sampler for each context. ends: whether it becomes idle in time. opened, closed: contexts."""

    def __init__(self, probe: FakeProbe | None = None, *, why: str = "") -> None:
        self.made = FakeProbe() if probe is None else probe
        self.why = why
        self.ends: Callable[[], bool] = lambda: True
        self.here = 1
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.asked: list[float] = []  # for how long to wait
        self.faulted = False

    def context(self) -> int:
        return self.here

    @contextlib.contextmanager
    def probe(self) -> Iterator[FakeProbe]:
        if self.why:
            raise SamplerError(self.why)
        context = self.here
        self.opened.append(context)
        try:
            yield self.made
        finally:
            self.closed.append(context)
            if "close" in self.made.fails:
                raise SamplerError("close has failed")

    def idle(self, limit_s: float) -> bool:
        self.asked.append(limit_s)
        if self.faulted:
            raise SamplerError("the device has faulted (CUDA error 700)")
        return self.ends()
