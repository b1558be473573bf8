"""One bare launch after another under the hardware's instruments, without ever harming the program.

    observer = Observer(Driver(), open_witnesses)
    if observer.wants(subject):
        result = observer.observe(subject, stream, launch)

The launching thread waits for an idle GPU before a launch that it observes, and for the launch itself,
because CUPTI configures the hardware only then. It waits for no longer than a limit: a kernel that waits for
another one is left alone from then on.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from profscope.evidence.counters import Counters, DisturbedError
from profscope.evidence.counts import Counts
from profscope.evidence.cupti import Library
from profscope.evidence.driver import Machine
from profscope.evidence.obstacles import injected_tool, other_profiler
from profscope.evidence.subject import CountedLaunch, CounterValues, Subject
from profscope.sampler.cupti import SamplerError, alone

__all__ = ["SECONDS", "Observer", "Witness", "open_witnesses"]

SECONDS: Final = 5.0
_LIMIT_S: Final = 2.0
_MOST_SKIPS: Final = 6  # of one kind: then nothing is observed any more
_MOST_ERRORS: Final = 3  # of one witness
_FOR_GOOD: Final = (23, 26, 35, 36, 39, 40)  # results of CUPTI that no later launch changes
_LAST_S: Final = 30.0
_APART: Final = 0.05  # by such a part may the clocks of one configuration's passes differ


class Witness(Protocol):
    """One kind of evidence in one context. open: raises SamplerError if it cannot be had. wants: whether
    another launch of the subject would add something. refuses: why no launch of it may be observed; "" if it
    may. before, after: around the launch, `after` once it has ended. abandon: in place of `after`, if the
    launch failed. close: gives the hardware back for good. results: what there is so far."""

    @property
    def name(self) -> str: ...

    @property
    def results(self) -> Sequence[Any]: ...

    def open(self) -> None: ...

    def wants(self, subject: Subject) -> bool: ...

    def refuses(self, subject: Subject) -> str: ...

    def before(self, subject: Subject) -> None: ...

    def after(self, subject: Subject) -> None: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...


Open = Callable[[int, int], Sequence[Witness]]  # of a context and its device; raises SamplerError


def open_witnesses(which: Sequence[str] = ("counts", "counters"), added: Sequence[str] = ()) -> Open:
    """What opens the witnesses of a context. added: NVIDIA's names of metrics that a user adds."""

    def opened(context: int, device: int) -> Sequence[Witness]:
        library = Library()
        witnesses: list[Witness] = []
        if "counts" in which:
            witnesses.append(Counts(library, context, device))
        if "counters" in which:
            witnesses.append(Counters(library, context, device, added))
        return witnesses

    return opened


class Observer:
    """Thread-safe. seconds: how long all observed launches together may keep the program waiting. added_s:
    how long they have. why: nothing is observed any more, and this is why; "" while something is."""

    def __init__(
        self, machine: Machine, open_in: Open, seconds: float = SECONDS, limit_s: float = _LIMIT_S
    ) -> None:
        self.why = ""
        self.added_s = 0.0
        self.left_alone: dict[str, str] = {}  # kernel -> why it is not observed any more
        self.skipped: Counter[str] = Counter()  # why launches ran unobserved -> how many
        self._machine = machine
        self._open = open_in
        self._seconds = seconds
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._opened: dict[int, list[Witness]] = {}  # by context
        self._off: dict[str, str] = {}  # witness -> why there is no more of it
        self._errors: Counter[str] = Counter()
        self._given_up: dict[tuple[str, Subject], str] = {}
        self._unfinished: dict[int, Witness] = {}  # by context: counts a launch that has not ended
        self._seen: dict[Subject, None] = {}
        self._clocks: dict[Subject, list[int]] = {}
        self._pid = os.getpid()

    def wants(self, subject: Subject) -> bool:
        """Whether a launch of the subject by this thread should be observed."""
        if self.why or subject.kernel in self.left_alone or os.getpid() != self._pid:
            return False
        if self.added_s >= self._seconds:
            return False
        witnesses = self._opened.get(self._machine.context())
        return witnesses is None or self._next(witnesses, subject) is not None

    def observe(self, subject: Subject, stream: int, launch: Callable[[], Any]) -> Any:
        """What `launch` returns, which launches the subject's bare binary once on the stream. Raises what it
        does."""
        if not self._lock.acquire(blocking=False):
            self._skip("another launch was being observed")
            return launch()
        try:
            witness = self._ready(subject, stream)
            return launch() if witness is None else self._watched(witness, subject, stream, launch)
        finally:
            self._lock.release()

    def counts(self) -> list[CountedLaunch]:
        return self._results("counts")

    def counters(self) -> list[CounterValues]:
        return self._results("counters")

    def notes(self) -> list[str]:
        """What was not observed and why, for the user."""
        notes = [f"no evidence from the hardware: {self.why}"] if self.why else []
        notes += [f"no {name}: {why}" for name, why in sorted(self._off.items())]
        if self.added_s >= self._seconds and any(
            self._next(witnesses, subject) for witnesses in self._opened.values() for subject in self._seen
        ):
            notes.append(f"evidence is incomplete: its {self._seconds:g} s are spent")
        notes += [f"{name}: not observed any more: {why}" for name, why in sorted(self.left_alone.items())]
        notes += [f"{subject.kernel}: no {name}: {why}" for (name, subject), why in self._given_up.items()]
        notes += [f"{count} launches ran unobserved: {why}" for why, count in self.skipped.items()]
        for subject, clocks in self._clocks.items():
            if max(clocks) > (1 + _APART) * min(clocks):
                notes.append(
                    f"{subject.kernel}: the SM clock changed from {min(clocks)} to {max(clocks)} MHz between "
                    "its launches: its counters may not belong together"
                )
        return notes

    def close(self) -> None:
        """Give the hardware back, once the GPU is idle. In a forked process it does nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            for context, witnesses in self._opened.items():
                with self._machine.entered(context):
                    if self._is_idle(_LAST_S):
                        self._leave(context, witnesses)
            self._machine.close()

    def _results(self, name: str) -> list[Any]:
        return [
            result
            for witnesses in self._opened.values()
            for witness in witnesses
            if witness.name == name
            for result in witness.results
        ]

    def _next(self, witnesses: Sequence[Witness], subject: Subject) -> Witness | None:
        """The first witness that wants a launch of the subject."""
        for witness in witnesses:
            if (
                witness.name not in self._off
                and (witness.name, subject) not in self._given_up
                and witness.wants(subject)
            ):
                return witness
        return None

    def _ready(self, subject: Subject, stream: int) -> Witness | None:
        """What the next launch is observed by, on an idle GPU; None if it cannot be."""
        if self._machine.capturing(stream):
            self._skip("a CUDA graph was being captured", often=True)
            return None
        other = other_profiler()
        if other:
            self._skip(f"{other} was profiling", often=True)
            return None
        if not self._is_idle(self._limit_s):
            return None
        context = self._machine.context()
        unfinished = self._unfinished.pop(context, None)
        if unfinished is not None:
            self._quietly(unfinished.abandon)
        witnesses = self._witnesses(context)
        while (witness := self._next(witnesses, subject)) is not None:
            refused = witness.refuses(subject)
            if not refused:
                return witness
            self._given_up[witness.name, subject] = refused
        return None

    def _witnesses(self, context: int) -> list[Witness]:
        """Those of a context, opened."""
        if context in self._opened:
            return self._opened[context]
        tool = injected_tool()
        if tool:
            self.why = f"{tool} has CUPTI to itself; run without it"
            return []
        opened: list[Witness] = []
        try:
            for witness in self._open(context, self._machine.device()):
                try:
                    with alone():
                        witness.open()
                    opened.append(witness)
                except SamplerError as error:
                    self._off[witness.name] = str(error)
        except SamplerError as error:
            self.why = str(error)
        self._opened[context] = opened
        return opened

    def _watched(self, witness: Witness, subject: Subject, stream: int, launch: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        self._seen.setdefault(subject)
        try:
            with alone():
                witness.before(subject)
        except SamplerError as error:
            self._failed(witness, subject, error)
            return launch()
        try:
            result = launch()
        except BaseException:
            self._quietly(witness.abandon)
            raise
        if not self._is_idle(self._limit_s):
            if not self.why:
                self.left_alone[subject.kernel] = (
                    f"a launch had not ended after {self._limit_s:g} s; kernels that wait for others cannot "
                    "be observed"
                )
                self._unfinished[self._machine.context()] = witness
            return result
        clock = self._machine.clock_mhz()
        if clock:
            self._clocks.setdefault(subject, []).append(clock)
        try:
            with alone():
                witness.after(subject)
        except SamplerError as error:
            self._failed(witness, subject, error)
        self.added_s += time.perf_counter() - begun
        return result

    def _failed(self, witness: Witness, subject: Subject, error: SamplerError) -> None:
        """A failure costs the evidence, never the launch."""
        if not isinstance(error, DisturbedError):
            self._errors[witness.name] += 1
        if error.result in _FOR_GOOD or self._errors[witness.name] >= _MOST_ERRORS:
            self._off[witness.name] = str(error)
            self._quietly(witness.close)
        else:
            self._given_up[witness.name, subject] = str(error)

    def _is_idle(self, limit_s: float) -> bool:
        """Waits for that, but not for ever. A fault of the device ends all observing: its user sees it."""
        try:
            if self._machine.idle(limit_s):
                return True
        except SamplerError as error:
            self.why = self.why or str(error)
            return False
        self._skip(f"the GPU was busy for {limit_s:g} s")
        return False

    def _skip(self, why: str, often: bool = False) -> None:
        """often: it costs nothing, so it may happen any number of times."""
        self.skipped[why] += 1
        if not often and self.skipped[why] >= _MOST_SKIPS:
            self.why = self.why or f"{why}, {_MOST_SKIPS} times"

    def _leave(self, context: int, witnesses: Sequence[Witness]) -> None:
        unfinished = self._unfinished.pop(context, None)
        if unfinished is not None:
            self._quietly(unfinished.abandon)
        for witness in witnesses:
            self._quietly(witness.close)

    def _quietly(self, leave: Callable[[], None]) -> None:
        """A device that has faulted cannot be told to stop; its user is told of the fault."""
        with contextlib.suppress(SamplerError), alone():
            leave()
