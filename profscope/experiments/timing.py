"""The time of a launch, alone and in pairs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from profscope.analysis.estimates import Ratio, ratio_of
from profscope.compat.kernels import hold
from profscope.compat.triton_parts import driver
from profscope.device.backend import Backend
from profscope.emulator.device import Device
from profscope.errors import SessionError

__all__ = ["LaunchTimer", "LaunchTimes", "Launcher", "PairTimer", "Pairs", "is_power_of_two"]

Launcher = Callable[[], Any]
"""Launches; of a whole launch, as a program writes it, it returns the compiled kernel."""

_FEWEST_PAIRS: Final = 8
_MOST_PAIRS: Final = 40
_ENOUGH_S: Final = 1.0  # for the pairs of one comparison
_FIRST_HOLD_NS: Final = 200_000
_LONGEST_HOLD_NS: Final = 50_000_000


class LaunchTimer:
    """Times a launch on a backend.

    On a GPU: microseconds between two events around the launch; the device is kept busy meanwhile, so that it
    does not wait for the host. On the emulator: thousands of cycles of its cost model, without the launch's
    overhead.
    """

    def __init__(self, backend: Backend) -> None:
        self._on_gpu = backend.emulated is None
        self._hold_ns = _FIRST_HOLD_NS

    @property
    def unit(self) -> str:
        """ "us" or "kcycles"."""
        return "us" if self._on_gpu else "kcycles"

    def time(self, launch: Launcher) -> float | None:
        """Launch once. None if the GPU came to the first event before the kernel was launched; the next
        launch is given longer, up to a limit."""
        if not self._on_gpu:
            device: Device = driver.active.device  # a program may have activated another one
            return device.time(launch)[1] / 1e3
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        hold(None, self._hold_ns)
        start.record()
        launch()
        waited = start.query()
        end.record()
        end.synchronize()
        if waited:
            self._hold_ns = min(2 * self._hold_ns, _LONGEST_HOLD_NS)
            return None
        return float(start.elapsed_time(end)) * 1e3

    @property
    def at_limit(self) -> bool:
        """Whether no launch is given longer."""
        return self._hold_ns == _LONGEST_HOLD_NS


class Pairs(NamedTuple):
    """first, second: the times of two launches, pair by pair, in the timer's unit."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratio(self) -> Ratio:
        """Second over first."""
        return ratio_of(self.first, self.second)


class PairTimer:
    """Times bare launches in pairs. prepare: called before each, such as to restore the arguments.

    On a GPU each runs behind a cleared L2 cache, as `triton.testing.do_bench` clears it. On the emulator
    times are the same each time, so one pair is enough.
    """

    def __init__(self, backend: Backend, prepare: Callable[[], None]) -> None:
        self._timer = LaunchTimer(backend)
        self._prepare = prepare
        self._on_gpu = backend.emulated is None
        self._flush = driver.active.get_empty_cache_for_benchmark() if self._on_gpu else None

    @property
    def unit(self) -> str:
        """As of `LaunchTimer`."""
        return self._timer.unit

    def pairs(self, first: Launcher, second: Launcher, enough_s: float = _ENOUGH_S) -> Pairs:
        """Both launched in turn, and who goes first in turn, too. Both have been launched before. enough_s:
        after so long no more pairs are made than the fewest.

        Raises SessionError if a launch waits for the device itself, so that its time cannot be known.
        """
        least, most = (_FEWEST_PAIRS, _MOST_PAIRS) if self._on_gpu else (1, 1)
        begun = time.monotonic()
        times: list[tuple[float, float]] = []
        while len(times) < least or (len(times) < most and time.monotonic() - begun < enough_s):
            if len(times) % 2:
                late = self.once(second)
                times.append((self.once(first), late))
            else:
                times.append((self.once(first), self.once(second)))
        return Pairs(tuple(one for one, _ in times), tuple(other for _, other in times))

    def once(self, launch: Launcher) -> float:
        """The time of one launch. Raises SessionError as `pairs`."""
        while True:
            self._prepare()
            if self._on_gpu:
                driver.active.clear_cache(self._flush)
            if (took := self._timer.time(launch)) is not None:
                return took
            if self._timer.at_limit:
                raise SessionError("the launch waits for the GPU, so its time is not known")


@dataclass(eq=False)
class LaunchTimes:
    """count: launches so far. times: of some of them, in the timer's unit."""

    count: int = 0
    times: list[float] = field(default_factory=list)

    def total(self, count: int) -> float:
        """The time of so many launches; 0 if not known."""
        return count * statistics.fmean(self.times) if self.times else 0.0


def is_power_of_two(count: int) -> bool:
    """Whether it is 1, 2, 4, ...: launches at which to look again, of few and of many."""
    return count & (count - 1) == 0
