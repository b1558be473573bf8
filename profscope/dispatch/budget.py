"""The budget of recording, in percent of a program's time: `overhead_pct=`.

    earned    overhead_pct of the time that the session has recorded for
    spent     what recorded launches took longer than bare ones, on the host and on the GPU, and the looks at
              bare ones

The session opens its doors for a window of time, in which launches are recorded as `every=` says. When a
window has spent more than was earned, the doors are shut: launches run as if there were no session, and are
in no figure, until enough is earned for the next window. A program that recording hardly slows down never
sees them shut. Host and GPU are added up although they work side by side: a launch-bound program pays for
the one, a GPU-bound one for the other, no program for more.

Not counted: the first launch of each configuration, for which the recorded binary is compiled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from profscope.threads import daemon

__all__ = ["WINDOW_NS", "Account", "Budget", "Doors", "pairs_timed"]

WINDOW_NS: Final = 50_000_000  # the shortest: some steps of a small model
_MOST_SAVED_NS: Final = WINDOW_NS  # what is earned beyond a window that costs all of its time is lost
_LONGEST_NS: Final = 60_000_000_000  # that the doors stay shut without another look at the time
_PAIRS: Final = 2  # the first bare launch of a pair loads the binary, and tells nothing
# What a recorded launch costs the program beyond what its launcher takes longer: threads that read its
# records share Python's lock with it, and its code and data drive others out of the caches. A GPT bound by
# its launches lost 100 us for each in windows of 50 ms, of which the launchers took 12, and up to 2.8 us for
# each look at a bare launch (docs/benchmarks.md, H200, 2026-11-27).
_RECORDED_NS: Final = 90_000
_LOOK_NS: Final = 3_000


def pairs_timed(baseline: int, budget: Budget | None) -> int:
    """How many pairs a session times. baseline: as asked for."""
    return max(baseline, 0 if budget is None else _PAIRS)


@dataclass(frozen=True)
class Doors:
    """Of a session. shut: shuts or opens them; looks: how many launches have come by them; held: whether they
    have to stay open, as while a CUDA graph is captured."""

    shut: Callable[[bool], None]
    looks: Callable[[], int]
    held: Callable[[], bool]


class Budget:
    """Of a session. Thread-safe. clock: in ns, steady."""

    def __init__(self, overhead_pct: float, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.overhead_pct = overhead_pct
        self.clock = clock
        self.lock = threading.Lock()
        self.doors = Doors(lambda is_shut: None, int, bool)
        self._accounts: list[Account] = []
        self._recorded_ns = 0  # up to the last pause
        self.resumed_ns: int | None = None
        self._switching = threading.RLock()
        self._is_shut = False
        self._since_ns = 0  # elapsed, when the doors were last opened
        self._open_ns = 0  # in windows that have ended
        self._saved_ns = 0.0
        self._seen_ns: tuple[int, float] = 0, 0.0  # elapsed and spent, up to which _saved_ns tells

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Count the time of the body of a with statement, and open and shut the doors in it; again and again,
        one after the other."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(self.step() / 1e9):
                pass

        self.resumed_ns = self.clock()
        thread = daemon("budget", keep)
        try:
            yield
        finally:
            ended.set()
            if thread is not None:
                thread.join()
            self.open()
            self._recorded_ns, self.resumed_ns = self.elapsed_ns, None

    @property
    def elapsed_ns(self) -> int:
        """For how long the session has recorded."""
        since = self.resumed_ns
        return self._recorded_ns + (0 if since is None else self.clock() - since)

    def account(self, extra_gpu_ns: Callable[[], float]) -> Account:
        """Of a configuration that is launched for the first time. extra_gpu_ns: says what a recorded launch
        of it takes longer on the GPU, 0 while that is not known."""
        account = Account(self, extra_gpu_ns)
        with self.lock:
            self._accounts.append(account)
        return account

    def open(self) -> None:
        """Begin a window, in which the doors are open: they may stand open already."""
        with self._switching:
            elapsed_ns = self.elapsed_ns
            if self._is_shut:
                self._is_shut = False
                self.doors.shut(False)
            else:
                self._open_ns += elapsed_ns - self._since_ns
            self._since_ns = elapsed_ns

    def step(self) -> int:
        """Open or shut the doors, if that is due. For how many ns nothing will be."""
        elapsed_ns, spent_ns = self.elapsed_ns, sum(self._spent_ns())
        share = self.overhead_pct / 100
        with self._switching:
            before_ns, spent_before_ns = self._seen_ns
            earned_ns = share * (elapsed_ns - before_ns) - (spent_ns - spent_before_ns)
            self._saved_ns = min(self._saved_ns + earned_ns, _MOST_SAVED_NS)
            self._seen_ns = elapsed_ns, spent_ns
            if not self._is_shut:
                window_ns = elapsed_ns - self._since_ns
                if window_ns < WINDOW_NS or self._saved_ns >= 0 or self.doors.held():
                    return WINDOW_NS
                self._open_ns += window_ns
                self._is_shut = True
                self.doors.shut(True)
            # What a window cost so far, it will cost again.
            missing_ns = WINDOW_NS * min(1.0, spent_ns / max(1, self._open_ns)) - self._saved_ns
            if missing_ns <= 0:
                self.open()
                return WINDOW_NS
            return round(min(_LONGEST_NS, max(WINDOW_NS, missing_ns / max(share, 1e-9))))

    def describe(self) -> dict[str, Any]:
        """The metadata's entry "budget": what was allowed, for how long the doors were open, and what
        recording added by these measures."""
        host_ns, gpu_ns = self._spent_ns()
        with self._switching:
            elapsed_ns = self.elapsed_ns
            open_ns = self._open_ns + (0 if self._is_shut else elapsed_ns - self._since_ns)
        return {
            "overhead_pct": self.overhead_pct,
            "elapsed_ns": elapsed_ns,
            "open_ns": open_ns,
            "host_ns": round(host_ns),
            "gpu_ns": round(gpu_ns),
        }

    def _spent_ns(self) -> tuple[float, float]:
        """On the host, and on the GPU."""
        with self.lock:
            accounts = list(self._accounts)
        host_ns = sum(each.host_ns + _RECORDED_NS * each.recorded for each in accounts)
        gpu_ns = sum(each.gpu_ns for each in accounts)
        return host_ns + _LOOK_NS * self.doors.looks(), gpu_ns


class Account:
    """Of one configuration. Thread-safe. recorded: its recorded launches but the first; host_ns: what they
    took longer on the host than bare ones."""

    def __init__(self, budget: Budget, extra_gpu_ns: Callable[[], float]) -> None:
        self.host_ns = 0
        self.recorded = 0
        self._budget = budget
        self._extra_gpu_ns = extra_gpu_ns
        self._least_bare_ns: int | None = None

    @property
    def gpu_ns(self) -> float:
        """The extra time of its recorded launches on the GPU."""
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
