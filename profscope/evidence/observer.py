"""One bare launch after another under the hardware's instruments, without ever harming the program.

    observer = Observer(Driver(), open_witnesses(), WaitBudget(5.0))
    if not observer.wants(subject) or not observer.observe(subject, stream, launch):
        launch()

The launching thread waits for an idle GPU before a launch that it observes, and for the launch itself,
because CUPTI configures the hardware only then. It waits for no longer than a limit: a kernel that waits for
another one is left alone from then on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from profscope.evidence.counters import Counters, DisturbedError
from profscope.evidence.counts import Counts
from profscope.evidence.cupti import (
    ADVICE,
    Library,
    SamplerError,
    alone,
    injected_tool,
    occupied_by,
    other_profiler,
)
from profscope.evidence.driver import Driver
from profscope.evidence.samples import Samples
from profscope.evidence.subject import (
    CountedLaunch,
    CounterValues,
    LargestFirst,
    SampledLaunch,
    Subject,
    Witness,
)

__all__ = ["CAPTURING", "Observer", "WaitBudget", "open_witnesses"]

_LIMIT_S: Final = 2.0
_MOST_WAITS: Final = 6  # in vain: then nothing is observed any more
_MOST_ERRORS: Final = 3  # of one witness
_LAST_S: Final = 30.0
_FIRST_PAUSE_S: Final = 20e-6
_LONGEST_PAUSE_S: Final = 1e-3
_MOST_DISTURBED: Final = 6  # launches of one subject under one witness
_MOST_PUT_OFF: Final = 64  # launches of one subject, during which no launch of any subject is observed
_EXCLUDE_EACH_OTHER: Final = ({"samples", "counters"},)  # an open PC sampler and an enabled range profiler
CAPTURING: Final = "a CUDA graph was being captured"
_APART: Final = 0.05  # by such a part may the clocks of one configuration's passes differ


Open = Callable[[int, int], Sequence[Witness]]  # of a context and its device; raises SamplerError


def open_witnesses(
    which: Sequence[str] = ("counts", "counters"),
    added: Sequence[str] = (),
    reload: Callable[[Subject], str] = lambda subject: "",
) -> Open:
    """The opener of a context's witnesses. added: NVIDIA's names of metrics that a user adds. reload: see
    `Samples`."""

    def opened(context: int, device: int) -> Sequence[Witness]:
        witnesses: list[Witness] = []
        if "counts" in which:
            witnesses.append(Counts(Library(), context, device))
        if "samples" in which:
            witnesses.append(Samples(reload))
        if "counters" in which:
            witnesses.append(Counters(Library(), context, device, added))
        return witnesses

    return opened


class WaitBudget:
    """How long all evidence of a session together may keep the program waiting. spent_s: how long it has.
    Thread-safe."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent_s = 0.0
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float:
        return max(0.0, self.seconds - self.spent_s)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """In the body of a with statement the program waits."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.spent_s += time.perf_counter() - begun


class Observer:
    """Thread-safe. why: nothing is observed any more, and this is why; "" while something is. launches: of
    each subject, those that ran under a witness, by its name. missed: those that ran under none."""

    def __init__(self, machine: Driver, open_in: Open, budget: WaitBudget, limit_s: float = _LIMIT_S) -> None:
        self.why = ""
        self.left_alone: dict[str, str] = {}  # kernel -> why it is not observed any more
        self.skipped: Counter[str] = Counter()  # why launches ran unobserved -> how many
        self._machine = machine
        self._open = open_in
        self._budget = budget
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._opened: dict[int, list[Witness]] = {}  # by context
        self._off: dict[str, str] = {}  # witness -> why there is no more of it
        self._errors: Counter[str] = Counter()
        self._given_up: dict[tuple[str, Subject], str] = {}
        self._unfinished: dict[int, Witness] = {}  # by context: counts a launch that has not ended
        self._put_off: Counter[Subject] = Counter()
        self._order = LargestFirst()
        self._disturbed: Counter[tuple[str, Subject]] = Counter()
        self.launches: dict[Subject, Counter[str]] = {}
        self.missed: Counter[Subject] = Counter()
        self._clocks: dict[Subject, list[int]] = {}
        self._pid = os.getpid()

    def wants(self, subject: Subject) -> bool:
        """Whether a launch of the subject by this thread should be observed."""
        if self.is_over or subject.kernel in self.left_alone:
            return False
        witnesses = self._opened.get(self._machine.context())
        return witnesses is None or self._next(witnesses, subject) is not None

    def lacks(self, subject: Subject) -> list[str]:
        """The witnesses that want more launches of the subject, by name."""
        if self.is_over or subject.kernel in self.left_alone:
            return []
        return [
            witness.name
            for witnesses in list(self._opened.values())
            for witness in witnesses
            if self._next([witness], subject) is witness
        ]

    def puts_off(self, subject: Subject) -> bool:
        """Whether the subject's next launch should not be observed yet: another witness has the hardware, and
        other subjects to observe; or its own witness should go on with others first, or has a larger one to
        observe. To change over takes 0.1 to 0.2 s, so that is not done for each launch."""
        self._order.launches(subject)
        witnesses = self._opened.get(self._machine.context(), [])
        witness = self._next(witnesses, subject)
        if witness is None or self._put_off[subject] >= _MOST_PUT_OFF:
            return False
        needs = {
            other: self._next(witnesses, other)
            for other in list(self.launches)
            if other != subject and other.kernel not in self.left_alone
        }
        holders = self._excluded(witnesses, witness)
        others = [other for other, needed in needs.items() if needed is witness]
        if (
            any(needed in holders for needed in needs.values())
            or witness.waits(subject, others)
            or any(
                self._order.precedes(other, subject) and not witness.waits(other, [subject, *others])
                for other in others
            )
        ):
            self._put_off[subject] += 1
            return True
        return False

    @property
    def is_over(self) -> bool:
        """Whether nothing is observed any more, of any subject."""
        return bool(self.why) or not self._budget.left_s or os.getpid() != self._pid

    def end(self, why: str) -> None:
        """Nothing is observed any more."""
        self.why = self.why or why

    def turn_off(self, witness: str, why: str) -> None:
        """There is no evidence of this kind."""
        self._off[witness] = why

    def refused(self, witness: str) -> str:
        """Why there is no evidence of this kind; "" if there is, or may be."""
        return self._off.get(witness, "") or ("" if self.launches else self.why)

    def skip(self, why: str) -> None:
        """A launch that was to be observed runs unobserved, at no cost."""
        self.skipped[why] += 1

    def observe(self, subject: Subject, stream: int, launch: Callable[[], Any]) -> bool:
        """Call `launch`, which launches the subject's bare binary once on the stream, under a witness. False
        if that cannot be, and then it was not called. Raises what it does."""
        if not self._lock.acquire(blocking=False):
            self.skip("another launch was being observed")
            self.missed[subject] += 1
            return False
        try:
            with self._budget.waiting():
                self.launches.setdefault(subject, Counter())
                witness = self._ready(subject, stream)
                if witness is not None and self._watched(witness, subject, stream, launch):
                    return True
                self.missed[subject] += 1
                return False
        finally:
            self._lock.release()

    def counts(self) -> list[CountedLaunch]:
        return self._results("counts")

    def samples(self) -> list[SampledLaunch]:
        return self._results("samples")

    def counters(self) -> list[CounterValues]:
        return self._results("counters")

    def notes(self) -> list[str]:
        """Missing observations with reasons, for the user."""
        notes = [f"no evidence from the hardware: {self.why}"] if self.why else []
        notes += [f"no {name}: {why}" for name, why in sorted(self._off.items())]
        if not self._budget.left_s and any(
            self._next(witnesses, subject) for witnesses in self._opened.values() for subject in self.launches
        ):
            notes.append(f"evidence is incomplete: its {self._budget.seconds:g} s are spent")
        notes += [f"{name}: not observed any more: {why}" for name, why in sorted(self.left_alone.items())]
        notes += [f"{subject.kernel}: no {name}: {why}" for (name, subject), why in self._given_up.items()]
        notes += [
            f"{count} launch{'es' * (count > 1)} ran unobserved: {why}" for why, count in self.skipped.items()
        ]
        notes += [note for witnesses in self._opened.values() for each in witnesses for note in each.notes()]
        for subject, clocks in self._clocks.items():
            if max(clocks) > (1 + _APART) * min(clocks):
                notes.append(
                    f"{subject.kernel}: the SM clock changed from {min(clocks)} to {max(clocks)} MHz between "
                    "its launches: its counters may not belong together"
                )
        return notes

    def release(self) -> None:
        """Give the hardware back until the next launch that is observed, once the GPU is idle."""
        self._leave_all(lambda witness: witness.release)

    def close(self) -> None:
        """Give the hardware back, once the GPU is idle. In a forked process it does nothing."""
        self._leave_all(lambda witness: witness.close)

    def _leave_all(self, how: Callable[[Witness], Callable[[], None]]) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            for context, witnesses in self._opened.items():
                with self._machine.entered(context):
                    if self._is_idle_at_last():
                        unfinished = self._unfinished.pop(context, None)
                        for leave in [unfinished.abandon] if unfinished is not None else []:
                            self._quietly(leave)
                        for witness in witnesses:
                            self._quietly(how(witness))
                    else:  # CUPTI goes on writing to memory of theirs, which must never go
                        ctypes.pythonapi.Py_IncRef(ctypes.py_object(witnesses))

    def _is_idle_at_last(self) -> bool:
        try:
            return self._machine.idle(_LAST_S)
        except SamplerError:
            return True  # a device that has faulted does nothing any more

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
            self.skip(CAPTURING)
            return None
        other = other_profiler()
        if other:
            self.skip(f"{other} was profiling")
            return None
        if not self._is_idle(self._limit_s):
            return None
        context = self._machine.context()
        unfinished = self._unfinished.pop(context, None)
        if unfinished is not None:
            self._quietly(unfinished.abandon)
        witnesses = self._witnesses(context)
        while (witness := self._next(witnesses, subject)) is not None:
            try:
                for holder in self._excluded(witnesses, witness):
                    with alone():
                        holder.release()
                refused = witness.prepare(subject)
            except SamplerError as error:
                self._failed(witness, subject, error)
                continue
            if not refused:
                return witness
            self._given_up[witness.name, subject] = refused
        return None

    def _excluded(self, witnesses: Sequence[Witness], witness: Witness) -> list[Witness]:
        """Those that hold the hardware and have to give it back before the witness can be at work."""
        return [
            other for other in witnesses if other.holds and {other.name, witness.name} in _EXCLUDE_EACH_OTHER
        ]

    def _witnesses(self, context: int) -> list[Witness]:
        """Those of a context, opened."""
        if context in self._opened:
            return self._opened[context]
        tool = injected_tool()
        if tool:
            self.why = occupied_by(tool)
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

    def _watched(self, witness: Witness, subject: Subject, stream: int, launch: Callable[[], Any]) -> bool:
        try:
            with alone():
                witness.before(subject)
        except SamplerError as error:
            self._failed(witness, subject, error)
            return False
        self.launches[subject][witness.name] += 1
        self._put_off.clear()
        begun = time.perf_counter()
        try:
            launch()
        except BaseException:
            self._quietly(witness.abandon)
            raise
        if not self._has_ended(stream) or not self._is_idle(self._limit_s):
            if not self.why:
                self.left_alone[subject.kernel] = (
                    f"a launch had not ended after {self._limit_s:g} s; kernels that wait for others cannot "
                    "be observed"
                )
                self._unfinished[self._machine.context()] = witness
            return True
        self._order.took(subject, time.perf_counter() - begun)
        clock = self._machine.clock_mhz()
        if clock:
            self._clocks.setdefault(subject, []).append(clock)
        try:
            with alone():
                witness.after(subject)
        except SamplerError as error:
            self._failed(witness, subject, error)
        return True

    def _failed(self, witness: Witness, subject: Subject, error: SamplerError) -> None:
        """A failure costs the evidence, never the launch."""
        if isinstance(error, DisturbedError):
            self._disturbed[witness.name, subject] += 1
            if self._disturbed[witness.name, subject] < _MOST_DISTURBED:
                return
        else:
            self._errors[witness.name] += 1
        if error.result in ADVICE or self._errors[witness.name] >= _MOST_ERRORS:
            self._off[witness.name] = str(error)
            self._quietly(witness.close)
        else:
            self._given_up[witness.name, subject] = str(error)

    def _has_ended(self, stream: int) -> bool:
        """Whether what the stream holds ends in time. It asks again and again: a thread that waits for the
        GPU keeps other threads from launching while a sampler is at work."""
        begun, pause_s = time.monotonic(), _FIRST_PAUSE_S
        with self._machine.so_far(stream) as ended:
            while not ended():
                if time.monotonic() - begun > self._limit_s:
                    return False
                time.sleep(pause_s)
                pause_s = min(1.25 * pause_s, _LONGEST_PAUSE_S)
        return True

    def _is_idle(self, limit_s: float) -> bool:
        """Waits for that, but not for ever. A fault of the device ends all observing: its user sees it."""
        try:
            if self._machine.idle(limit_s):
                return True
        except SamplerError as error:
            self.why = self.why or str(error)
            return False
        why = f"the GPU was busy for {limit_s:g} s"
        self.skip(why)
        if self.skipped[why] >= _MOST_WAITS:
            self.why = self.why or f"{why}, {_MOST_WAITS} times"
        return False

    def _quietly(self, leave: Callable[[], None]) -> None:
        """A device that has faulted cannot be told to stop; its user is told of the fault."""
        with contextlib.suppress(SamplerError), alone():
            leave()
