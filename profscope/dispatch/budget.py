"""What recording may add to a program's time: `overhead_pct=`.

    budget    overhead_pct of the time that the session has recorded for, in equal parts by configuration
    spent     what recorded launches took longer than bare ones, on the host and on the GPU

A configuration whose next recorded launch would spend too much runs bare until it may. Its first launch, and
the pairs behind it (`baseline.py`), are recorded all the same. Host and GPU are added up although they work
side by side: a launch-bound program pays for the one, a GPU-bound one for the other, no program for more.

Not counted: the first launch of each configuration, for which the recorded binary is compiled; the look at
each bare launch (0.3 us); and the copies to the host, which other threads make.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Account", "Budget", "pairs_timed"]

_PAIRS: Final = 2  # the first bare launch of a pair loads the binary, and tells nothing


def pairs_timed(baseline: int, budget: Budget | None) -> int:
    """How many pairs a session times. baseline: as asked for."""
    return max(baseline, 0 if budget is None else _PAIRS)


class Budget:
    """Of a session. Thread-safe. clock: in ns, steady."""

    def __init__(self, overhead_pct: float, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.overhead_pct = overhead_pct
        self.clock = clock
        self.lock = threading.Lock()
        self._accounts: list[Account] = []
        self._recorded_ns = 0  # up to the last pause
        self._resumed_ns: int | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Count the time of the body of a with statement; again and again, one after the other."""
        self._resumed_ns = self.clock()
        try:
            yield
        finally:
            self._recorded_ns, self._resumed_ns = self.elapsed_ns, None

    @property
    def elapsed_ns(self) -> int:
        """For how long the session has recorded."""
        since = self._resumed_ns
        return self._recorded_ns + (0 if since is None else self.clock() - since)

    def open(self, extra_gpu_ns: Callable[[], float]) -> Account:
        """The account of a configuration that is launched for the first time. extra_gpu_ns: says what a
        recorded launch of it takes longer on the GPU, 0 while that is not known."""
        account = Account(self, extra_gpu_ns)
        with self.lock:
            self._accounts.append(account)
        return account

    def part(self) -> float:
        """What one configuration may spend, of the time that has passed."""
        return self.overhead_pct / 100 / max(1, len(self._accounts))

    def describe(self) -> dict[str, Any]:
        """The metadata's entry "budget": what was allowed, and what recording added by these measures."""
        with self.lock:
            accounts = list(self._accounts)
        return {
            "overhead_pct": self.overhead_pct,
            "elapsed_ns": self.elapsed_ns,
            "host_ns": round(sum(each.host_ns for each in accounts)),
            "gpu_ns": round(sum(each.gpu_ns for each in accounts)),
        }


class Account:
    """Of one configuration. Thread-safe. recorded: its recorded launches but the first; host_ns: what they
    took longer on the host than bare ones."""

    def __init__(self, budget: Budget, extra_gpu_ns: Callable[[], float]) -> None:
        self.host_ns = 0
        self.recorded = 0
        self._budget = budget
        self._extra_gpu_ns = extra_gpu_ns
        self._opened_ns = budget.elapsed_ns
        self._charged_from_ns: int | None = None
        self._least_bare_ns: int | None = None

    @property
    def gpu_ns(self) -> float:
        """What its recorded launches took longer on the GPU."""
        return self.recorded * self._extra_gpu_ns()

    def charge(self, run: Callable[[], Any], *, is_bare: bool) -> Any:
        """What `run` returns, which launches. A recorded launch is charged what it takes longer on the host
        than the quickest bare one so far: of the bare ones at least the first loads a binary."""
        clock = self._budget.clock
        begun = clock()
        try:
            return run()
        finally:
            took = clock() - begun
            with self._budget.lock:
                if is_bare:
                    known = self._least_bare_ns
                    self._least_bare_ns = took if known is None else min(known, took)
                else:
                    self.host_ns += max(0, took - (self._least_bare_ns or 0))
                    self.recorded += 1

    def delay(self, launches: int) -> int:
        """How many launches from this one on run bare until another can be recorded, at the pace of the
        configuration's `launches` so far; 0: this one can be. At most as many as there were: the pace may
        change."""
        budget = self._budget
        elapsed_ns, part = budget.elapsed_ns, budget.part()
        if self._charged_from_ns is None:  # while its binary was built it earned nothing
            self._charged_from_ns = elapsed_ns
        spent_ns = self.host_ns + self.gpu_ns
        each_ns = spent_ns / self.recorded if self.recorded else 0.0
        missing_ns = spent_ns + each_ns - part * (elapsed_ns - self._charged_from_ns)
        if missing_ns <= 0:
            return 0
        pace_ns = max(1.0, (elapsed_ns - self._opened_ns) / max(1, launches))
        earned_ns = part * pace_ns  # by each launch that is put off; next to nothing of a tiny part
        if missing_ns >= launches * earned_ns:
            return max(1, launches)
        return max(1, round(missing_ns / earned_ns))
