"""Bare launches timed in interleaved pairs with the launch that they are compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from profscope.analysis.paired import Ratio, ratio_of
from profscope.compat.launching import hold
from profscope.compat.triton_parts import driver
from profscope.device.backend import Backend
from profscope.errors import SessionError

__all__ = ["PairTimer", "Pairs"]

Launch = Callable[[], Any]

_FEWEST_PAIRS: Final = 8
_MOST_PAIRS: Final = 40
_ENOUGH_S: Final = 1.0  # for the pairs of one comparison
_FIRST_HOLD_NS: Final = 200_000
_LONGEST_HOLD_NS: Final = 50_000_000


class Pairs(NamedTuple):
    """first, second: the times of two launches, pair by pair, in the timer's unit."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratio(self) -> Ratio:
        """Second over first."""
        return ratio_of(self.first, self.second)


class PairTimer:
    """Times launches on a backend. prepare: called before each, such as to restore the arguments.

    On a GPU: microseconds between two events around the launch, behind a cleared L2 cache, as
    `triton.testing.do_bench` clears it; the device is kept busy meanwhile, so that it does not wait for the
    host. On the emulator: thousands of cycles of its cost model, without the launch's overhead; the same each
    time, so one pair is enough.
    """

    def __init__(self, backend: Backend, prepare: Callable[[], None]) -> None:
        self._emulated = backend.emulated
        self._prepare = prepare
        self._hold_ns = _FIRST_HOLD_NS
        self._flush = None if self._emulated else driver.active.get_empty_cache_for_benchmark()

    @property
    def unit(self) -> str:
        """ "us" or "kcycles"."""
        return "us" if self._emulated is None else "kcycles"

    def pairs(self, first: Launch, second: Launch) -> Pairs:
        """Both launched in turn, and who goes first in turn, too. Both have been launched before.

        Raises SessionError if a launch waits for the device itself, so that its time cannot be known.
        """
        least, most = (1, 1) if self._emulated else (_FEWEST_PAIRS, _MOST_PAIRS)
        begun = time.monotonic()
        times: list[tuple[float, float]] = []
        while len(times) < least or (len(times) < most and time.monotonic() - begun < _ENOUGH_S):
            if len(times) % 2:
                late = self.once(second)
                times.append((self.once(first), late))
            else:
                times.append((self.once(first), self.once(second)))
        return Pairs(tuple(one for one, _ in times), tuple(other for _, other in times))

    def once(self, launch: Launch) -> float:
        """The time of one launch."""
        self._prepare()
        if self._emulated is not None:
            before = self._emulated.cycles
            launch()
            model = self._emulated.model
            return (self._emulated.cycles - before - model.cycles(model.launch_overhead_ns)) / 1e3
        while (took := self._between_events(launch)) is None:
            self._hold_ns *= 2
            if self._hold_ns > _LONGEST_HOLD_NS:
                raise SessionError("explain: the launch waits for the GPU, so its time is not known")
            self._prepare()
        return took

    def _between_events(self, launch: Launch) -> float | None:
        """Microseconds; None if the GPU came to the first event before the kernel was launched."""
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        driver.active.clear_cache(self._flush)
        hold(None, self._hold_ns)
        start.record()
        launch()
        waited = start.query()
        end.record()
        end.synchronize()
        return None if waited else float(start.elapsed_time(end)) * 1e3
