"""Clock fits on readings with a known truth: a slope, an origin per SM, and a globaltimer that ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from profscope.decoding.areas import CTA
from profscope.decoding.timebase import TimeBase, fit, readings


@dataclass(frozen=True)
class Machine:
    """A GPU's clocks: true ns of cycle c on SM s is ns_per_cycle * (c - origins[s]) + epoch."""

    ns_per_cycle: float
    origins: tuple[int, ...]
    epoch: int
    step: int  # ns between two values of the globaltimer

    def true_ns(self, cycle: npt.NDArray[np.int64], sm: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """ns since the epoch."""
        return (cycle - np.array(self.origins)[sm]) * self.ns_per_cycle

    def headers(
        self, sm: npt.NDArray[np.int64], start: npt.NDArray[np.int64], length: int
    ) -> npt.NDArray[np.void]:
        """What CTAs on these SMs wrote that began at `start` cycles after their SM's origin."""
        found = np.zeros(len(sm), CTA)
        found["sm"] = sm
        for name, at in (("start", start), ("end", start + length)):
            cycle = at + np.array(self.origins)[sm]
            found[f"{name}_clock"] = cycle
            ticks = (self.true_ns(cycle, sm) + self.epoch % self.step) // self.step
            found[f"{name}_globaltimer"] = (
                self.epoch // self.step * self.step + ticks.astype(np.int64) * self.step
            )
        return found


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    return Machine(
        ns_per_cycle=draw(st.floats(0.3, 2.0)),
        origins=tuple(draw(st.lists(st.integers(1, 1 << 45), min_size=1, max_size=8))),
        epoch=draw(st.integers(1 << 50, 1 << 60)),
        step=draw(st.sampled_from([1, 32, 1000, 1024])),
    )


def overhang(base: TimeBase, headers: npt.NDArray[np.void]) -> float:
    """How far an SM's readings reach beyond the ends of its curve, in lengths of the line that ends there."""
    found = [0.0]
    for sm, first, last in zip(base.sms, base.first, base.last, strict=True):
        mine, point = headers[headers["sm"] == sm], base.point_cycle[first : last + 1]
        before, after = point[0] - int(mine["start_clock"].min()), int(mine["end_clock"].max()) - point[-1]
        found += [before / (point[1] - point[0]), after / (point[-1] - point[-2])]
    return max(found)


LENGTH = 3_000_000  # cycles of a CTA


@given(machine=machines(), ctas=st.integers(1, 50), seed=st.integers(0, 1000))
@example(
    machine=Machine(1.6337152356230387, origins=(1, 1, 1), epoch=1581183874449207, step=1000),
    ctas=33,
    seed=676,
)
def test_every_time_is_within_the_stated_uncertainty(machine: Machine, ctas: int, seed: int) -> None:
    """A reading lies within half a step of the truth once half a step is added, so the mean of several does.

    The slope: an SM's readings lie x cycles from their mean, so half a step in each moves least squares by at
    most step / 2 * sum(|x|) / sum(x^2) <= step / 2 / mean(|x|), and of a CTA's two readings, a CTA's length
    apart, the mean |x| is at least half that length.

    The uncertainty: the curve's points are means of readings, half a step off at most, and so is the curve
    between them. Where it goes on, a lengths of its last line, it is step / 2 * (1 + 2 a) off. A reading is
    half a step off itself, and half a step is added: (3 / 2 + a) steps in all. A point stands for two windows
    of readings at most, and is half a window at least from the next, so that a <= 4.
    """
    random = np.random.default_rng(seed)
    sm = random.integers(len(machine.origins), size=ctas)
    start = random.integers(1_000_000, size=ctas)
    headers = machine.headers(sm, start, LENGTH)
    (base,) = fit([readings(headers)])
    slope = machine.step / (LENGTH * machine.ns_per_cycle)
    assert 1 / (1 + slope) <= base.clock_ghz[0] * machine.ns_per_cycle <= 1 / (1 - slope)
    # Anywhere in a CTA, not only at the pairs the fit has seen.
    cycle = (start + np.array(machine.origins)[sm] + random.integers(LENGTH, size=ctas)).astype(np.int64)
    error = (base.to_ns(cycle, sm) - machine.epoch) - machine.true_ns(cycle, sm)
    assert np.abs(error).max() <= base.uncertainty_ns[0] + 1  # to_ns floors
    if ctas >= 20:  # a few readings do not show how small the step is
        beyond = overhang(base, headers)
        assert beyond <= 4
        assert base.uncertainty_ns[0] <= (1.5 + beyond) * machine.step + 0.01  # float64


def test_a_short_launch_takes_the_slope_of_the_session() -> None:
    machine = Machine(ns_per_cycle=1 / 1.98, origins=(5_000, 70_000_000), epoch=1 << 55, step=32)
    sm = np.array([0, 1, 0, 1])
    long = machine.headers(sm, np.array([0, 10, 500_000, 600_000]), length=2_000_000)
    short = machine.headers(sm[:2], np.array([9_000_000, 9_000_100]), length=60)
    alone = fit([readings(short)])[0]
    with_long = fit([readings(short), readings(long)])[0]
    assert with_long.clock_ghz[0] == pytest.approx(1.98, rel=1e-4)
    assert alone.clock_ghz[0] != pytest.approx(1.98, rel=1e-4)


def test_a_clock_that_is_known_is_not_fitted() -> None:
    machine = Machine(ns_per_cycle=0.8, origins=(5_000, 70_000_000), epoch=1 << 55, step=32)
    short = machine.headers(np.array([0, 1]), np.array([0, 100]), length=50)
    (fitted,), (known,) = fit([readings(short)]), fit([readings(short)], clock_ghz=1.25)
    assert fitted.clock_ghz[0] != pytest.approx(1.25, rel=1e-4)
    assert known.clock_ghz[0] == 1.25


def test_each_launch_has_its_own_clock_where_it_can_be_told() -> None:
    sm = np.zeros(10, np.int64)
    start = np.arange(10) * 100_000
    slow = Machine(ns_per_cycle=1.0, origins=(77,), epoch=1 << 55, step=32).headers(sm, start, 1_000_000)
    fast = Machine(ns_per_cycle=0.5, origins=(77,), epoch=1 << 56, step=32).headers(sm, start, 1_000_000)
    assert [base.clock_ghz[0] for base in fit([readings(slow), readings(fast)])] == pytest.approx(
        [1.0, 2.0], rel=1e-4
    )


@pytest.mark.parametrize("headers", [np.zeros(0, CTA), np.zeros(3, CTA)])
def test_nothing_written_gives_no_clock_and_no_times(headers: npt.NDArray[np.void]) -> None:
    (base,) = fit([readings(headers)])
    assert math.isnan(base.clock_ghz[0])
    assert math.isnan(base.uncertainty_ns[0])
    assert base.to_ns(np.array([5, 6]), np.array([0, 9])).tolist() == [0, 0]


def test_a_globaltimer_that_never_ticked_gives_no_clock() -> None:
    machine = Machine(ns_per_cycle=0.5, origins=(9,), epoch=1 << 50, step=1 << 20)
    (base,) = fit([readings(machine.headers(np.array([0]), np.array([10]), length=5))])
    assert math.isnan(base.clock_ghz[0])
