"""Experiments with a program's biggest kernels, between its launches.

| launch of a configuration | what happens |
|---|---|
| the first that needs no other evidence | it runs bare and is timed |
| number 4, 8, 16, ... | experiments, if no configuration that is still without takes more of the time |

Experiments launch the kernel, and edits of it, with the arguments of that launch. The memory behind these is
copied before and restored afterwards, so the program only sees that it has waited. Then its own launch runs.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch

from profscope.binaries.spinning import may_wait
from profscope.compat.kernels import load
from profscope.compat.triton_parts import CompiledKernel, driver
from profscope.device.backend import Backend
from profscope.dispatch.configurations import FIRST_ARGUMENT, STREAM, Binary, Configuration
from profscope.evidence.cupti import SamplerError
from profscope.evidence.driver import Driver
from profscope.evidence.observer import CAPTURING, WaitBudget
from profscope.evidence.subject import ExperimentedKernel, Subject, named
from profscope.experiments.arguments import Arguments, bytes_reached, extents, why_not_seen
from profscope.experiments.builds import Builds
from profscope.experiments.running import OUT_OF_TIME, experiments_table, run
from profscope.experiments.timing import LaunchTimer, LaunchTimes, PairTimer, is_power_of_two
from profscope.instrument_passes.ablation.protected import outside_effect
from profscope.instrument_passes.analyses.graph import Graph
from profscope.instrument_passes.ir.parser import parse
from profscope.progress import working
from profscope.recording.diagnostics import number_of_launches, reason
from profscope.store.free_memory import free_bytes

__all__ = ["FEWEST_LAUNCHES", "Experimenting"]

FEWEST_LAUNCHES: Final = 4
_LONGEST_S: Final = 30.0  # of one kernel
_IDLE_S: Final = 2.0
_MIB: Final = 1 << 20
_OTHER_STREAM: Final = "it was on another stream than the current one"
_THREADS: Final = "several threads launch kernels, and one may need what another restores"
_BUSY: Final = f"the GPU was busy for {_IDLE_S:g} s"
_NO_ROOM: Final = "there is no room for a copy of its arguments"


@dataclass(eq=False)
class _Known:
    """A configuration. time: of its launches. is_met: one of them has been looked at. why: there are no
    experiments, and this is why. made: launches for experiments."""

    subject: Subject
    time: LaunchTimes = field(default_factory=LaunchTimes)
    is_met: bool = False
    why: str = ""
    made: int = 0
    result: ExperimentedKernel | None = field(default=None, repr=False)

    @property
    def is_done(self) -> bool:
        return bool(self.why) or self.result is not None

    @property
    def got_none(self) -> bool:
        """Whether there was no time for any of its experiments."""
        if self.result is None:
            return not self.why
        return set(self.result.rows["why_not"]) == {OUT_OF_TIME}

    @property
    def is_looked_at(self) -> bool:
        """Whether its launch number `time.count` is."""
        count = self.time.count
        return not self.is_met or (count >= FEWEST_LAUNCHES and is_power_of_two(count))

    @property
    def total(self) -> float:
        """The time of all its launches; 0 if not known."""
        return self.time.total(self.time.count)


class Experimenting:
    """The experiments of a session. Thread-safe. gpu: the driver of the machine, None on the emulator.
    budget: of the time that the program waits."""

    def __init__(self, machine: Backend, gpu: Driver | None, budget: WaitBudget) -> None:
        self._machine = machine
        self._gpu = gpu
        self._budget = budget
        self._timer = LaunchTimer(machine)
        self._known: dict[Configuration, _Known] = {}
        self._skipped: Counter[str] = Counter()  # why launches that were due had no experiments
        self._late: set[str] = set()  # kernels first launched when the budget was spent
        self._threads: set[int] = set()  # that launch
        self._lock = threading.Lock()
        self._builds: Builds | None = None
        self._opened = contextlib.ExitStack()
        self._pid = os.getpid()

    def is_done(self, configuration: Configuration) -> bool:
        """Whether no launch of the configuration is needed any more."""
        known = self._known.get(configuration)
        if os.getpid() != self._pid:
            return True
        if not self._budget.left_s:
            if known is None:
                self._late.add(configuration.name)
            return True
        return known is not None and known.is_done

    def is_due(self, configuration: Configuration, subject: Subject) -> bool:
        """Whether the next launch of the configuration should be timed, or experiments go before it."""
        known = self._known.setdefault(configuration, _Known(subject))
        known.time.count = configuration.numbers.launches + 1
        self._threads.add(threading.get_ident())
        if known.is_done or not known.is_looked_at:
            return False
        known.is_met = True
        return not known.total or self._is_biggest(known)

    def launch(
        self,
        configuration: Configuration,
        bare: Binary,
        arguments: tuple[Any, ...],
        release: Callable[[], None],
    ) -> bool:
        """Time a launch that is due, or make experiments and leave the launch to who asks. Whether it was
        launched.

        arguments: of Triton's launchers. release: takes instruments off the GPU, which is idle, since they
        slow launches down.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            with self._budget.waiting():
                return self._launched(self._known[configuration], bare, arguments, release)
        finally:
            self._lock.release()

    def _launched(
        self, known: _Known, bare: Binary, arguments: tuple[Any, ...], release: Callable[[], None]
    ) -> bool:
        given = named(bare.kernel.src.signature, arguments[FIRST_ARGUMENT:])
        known.why = self._why_never(known.subject, bare, given)
        if known.why:
            return False
        if why := self._why_not_now(arguments[STREAM]):
            self.skip(why)
            return False
        release()
        if not known.total:
            return self._time(known, bare, arguments)
        self._experiment(known, bare.kernel, arguments, given)
        return False

    def skip(self, why: str) -> None:
        """A launch that may have been due goes on without experiments."""
        self._skipped[why] += 1

    def results(self) -> list[ExperimentedKernel]:
        return [each.result for each in list(self._known.values()) if each.result is not None]

    @property
    def launches(self) -> Counter[str]:
        """By kernel, those that were made for experiments."""
        made = Counter[str]()
        for each in list(self._known.values()):
            made[each.subject.kernel] += each.made
        return made

    def notes(self) -> Iterator[str]:
        """Kernels without experiments, and why."""
        for each in list(self._known.values()):
            if each.why:
                yield f"{each.subject.kernel}: no experiments: {each.why}"
        left = {each.subject.kernel for each in list(self._known.values()) if each.got_none} | self._late
        if left and not self._budget.left_s:
            spent = f"{self._budget.seconds:g} s are spent"
            yield f"no experiments, since {spent}: {', '.join(sorted(left))}"
        for why, count in self._skipped.items():
            yield f"{number_of_launches(count)} went on without experiments: {why}"

    def close(self) -> None:
        """The session has ended. In a forked process it does nothing."""
        if os.getpid() == self._pid:
            self._opened.close()

    def _is_biggest(self, known: _Known) -> bool:
        """Whether no other configuration that is not done has taken more time."""
        left = [each for each in list(self._known.values()) if not each.is_done]
        return known.total >= max(each.total for each in left)

    def _why_never(self, subject: Subject, bare: Binary, given: Mapping[str, Any]) -> str:
        """Why no launch with such arguments may be repeated, as far as that is known without its TTGIR."""
        if may_wait(subject.ptx):
            return "it may wait for what another kernel writes"
        return why_not_seen(bare.kernel.src.signature, given, driver.active.get_active_torch_device())

    def _why_not_now(self, stream: int) -> str:
        """Why a launch cannot be repeated now. Waits for the GPU, but not for ever."""
        if stream != driver.active.get_current_stream(driver.active.get_current_device()):
            return _OTHER_STREAM
        # Threads that Python has not started are autograd's: they and the one that they work for take turns.
        alive = threading.enumerate()
        started = {each.ident for each in alive if not isinstance(each, threading._DummyThread)}
        if len(self._threads & started) > 1:
            return _THREADS
        if self._gpu is None:
            return ""
        if self._gpu.capturing(stream):
            return CAPTURING
        try:
            return "" if self._gpu.idle(_IDLE_S) else _BUSY
        except SamplerError as error:  # a fault of the device, which its user sees
            return str(error)

    def _time(self, known: _Known, bare: Binary, arguments: tuple[Any, ...]) -> bool:
        """The program's launch, of the bare binary; True."""
        known.made += 1
        took = self._timer.time(partial(bare.launch, *arguments))
        if took is not None:
            known.time.times.append(took)
        elif self._timer.at_limit:
            known.why = "its launches wait for the GPU, so their time is not known"
        return True

    def _experiment(
        self,
        known: _Known,
        bare: CompiledKernel,
        arguments: tuple[Any, ...],
        given: Mapping[str, Any],
    ) -> None:
        """Keep the results of all experiments, or why there are none."""
        x, y, z, stream = arguments[: STREAM + 1]
        values, limit_s = arguments[FIRST_ARGUMENT:], min(self._budget.left_s, _LONGEST_S)

        def launch(edited: CompiledKernel | None) -> None:
            kernel = edited or bare
            known.made += 1
            # Without what Triton tells hooks: launches of experiments are none of the program's.
            load(kernel)(x, y, z, stream, kernel.function, kernel.packed_metadata, None, None, None, *values)

        try:
            known.why = outside_effect(Graph(parse(bare.asm["ttgir"]))) or self._why_no_room(values)
            if known.why:
                return
            with self._copied(values) as contents:
                launch(None)
                contents.find_written()
                timer = PairTimer(self._machine, contents.restore)
                with working(f"experiments with {known.subject.kernel}"):
                    results = run(bare, launch, extents(bare, given), timer, self._building(), limit_s)
            rows = experiments_table(results, known.subject.kernel, 0, timer.unit)
            known.result = ExperimentedKernel(known.subject.kernel, known.subject.key, rows)
        except torch.OutOfMemoryError:
            known.why = _NO_ROOM
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            known.why = reason(error)

    @contextlib.contextmanager
    def _copied(self, values: Sequence[Any]) -> Iterator[Arguments]:
        """In the body of a with statement launches may change the arguments' memory; it is restored at the
        end, before any stream or thread goes on."""
        contents = Arguments(values)
        try:
            yield contents
        finally:
            contents.reset()
            if self._gpu is not None:
                self._gpu.idle(_IDLE_S)

    def _why_no_room(self, values: Sequence[Any]) -> str:
        """Why the arguments' memory cannot be copied: the program needs half of what is free."""
        needed = bytes_reached(values)
        if self._gpu is None:
            free = free_bytes()
        else:
            unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            free = torch.cuda.mem_get_info()[0] + unused
        if free is None or 2 * needed <= free:
            return ""
        return f"{_NO_ROOM}: {needed // _MIB:,} MiB, and {free // _MIB:,} are free"

    def _building(self) -> Builds:
        """What builds edits; its processes stay until the session ends."""
        if self._builds is None:
            self._builds = self._opened.enter_context(Builds().open())
        return self._builds
