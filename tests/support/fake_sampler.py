"""A sampler that says what a test wants."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from profscope.evidence.cupti import SamplerError
from profscope.evidence.pc_sampler import FIRST, SAMPLE, Samples

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
        self.period_log2 = FIRST

    def _say(self, what: str) -> None:
        self.said.append(what)
        if what in self.fails:
            raise SamplerError(f"{what} has failed")

    @contextlib.contextmanager
    def opened(self) -> Iterator[FakeProbe]:
        """In place of `sampler.Sampler`."""
        self._say("open")
        try:
            yield self
        finally:
            self._say("close")

    def set_period(self, period_log2: int) -> None:
        self.period_log2 = period_log2

    def start(self) -> None:
        assert self.started is None, "two launches at a time"
        self._say("start")
        self.periods.append(self.period_log2)
        self.started = threading.get_ident()

    def stop(self) -> Samples:
        assert self.started == threading.get_ident()
        self.started = None
        self._say("stop")
        count = int(self.per_launch * 2.0 ** (10 - self.period_log2))
        of_each = *self.functions, "stranger"
        functions = tuple(dict.fromkeys(of_each))
        rows = np.zeros(len(of_each), SAMPLE)
        rows["cubin_crc"] = [*self.checksums, STRANGER]
        rows["function"] = [functions.index(name) for name in of_each]
        rows["samples"] = count
        rows = rows[rows["cubin_crc"] != 0]
        taken = int(rows["samples"].sum())
        return Samples(rows, functions, REASONS, self.period_log2, taken, self.dropped, self.unknown)

    def crc(self, cubin: bytes) -> int:
        return CRC
