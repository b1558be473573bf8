"""Cycles to nanoseconds, from the clock pairs the CTAs themselves read; no frequency is ever assumed.

Every CTA header holds two pairs (clock64, globaltimer), one at its start and one at its end. The SMs of a
GPU share one frequency but each has its own clock64 origin, so a launch is fitted as

    globaltimer = offset[sm] + clock64 * ns_per_cycle

with one slope for the launch and one offset per SM. The globaltimer advances in steps (32 ns on an H200),
so a reading lies up to one step before the truth; the offset is corrected by half a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instrument_passes.records import MAGIC

__all__ = ["TimeBase", "fit"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# A launch whose own slope is known better than this keeps it; others take the session's.
MAX_RELATIVE_ERROR = 1e-3


@dataclass(frozen=True)
class TimeBase:
    """Maps (sm, cycle) to ns.

    ns_per_cycle: float, NaN when the launch gave nothing to fit. sms: SM ids, sorted. origin_cycle and
    origin_ns: one pair per SM. uncertainty_ns: the largest distance of a measured pair from the fit, in ns:
    what a timestamp may be off by.
    """

    ns_per_cycle: float
    sms: Ints
    origin_cycle: Ints
    origin_ns: Floats
    epoch_ns: int
    uncertainty_ns: float

    @property
    def clock_ghz(self) -> float:
        """Fitted SM clock in cycles per ns, NaN when unknown."""
        return 1.0 / self.ns_per_cycle if self.ns_per_cycle > 0 else float("nan")

    def to_ns(self, cycle: Ints, sm: Ints) -> Ints:
        """Absolute globaltimer ns (floor), int64; zeros when there was nothing to fit."""
        if not self.ns_per_cycle > 0:
            return np.zeros(len(cycle), np.int64)
        at = np.searchsorted(self.sms, sm)
        relative = self.origin_ns[at] + (cycle - self.origin_cycle[at]) * self.ns_per_cycle
        return self.epoch_ns + np.floor(relative).astype(np.int64)


def fit(headers: Sequence[npt.NDArray[np.void]]) -> list[TimeBase]:
    """Fit one time base per launch of a session.

    headers: one array of CTA_HEADER dtype per launch (unwritten ones are left out). A launch whose own
    slope is known to better than 0.1 % keeps it; a shorter one takes the mean slope of the session, each
    launch weighted by its precision. If no launch is long enough to see the globaltimer advance, the time
    bases map everything to 0 ns and have clock_ghz NaN.
    """
    pairs = [_pairs(h) for h in headers]
    step = float(np.gcd.reduce(np.concatenate([gtime for _, _, gtime in pairs]))) if pairs else 0.0
    slopes = [_slope(*p, step) for p in pairs]
    weights = np.array([1 / error**2 if error > 0 else 0.0 for _, error in slopes])
    values = np.array([slope for slope, _ in slopes])
    usable = weights > 0
    mean = (
        float(np.dot(values[usable], weights[usable]) / weights[usable].sum())
        if usable.any()
        else float("nan")
    )
    return [
        _anchor(*p, slope if error < MAX_RELATIVE_ERROR * slope else mean, step)
        for p, (slope, error) in zip(pairs, slopes, strict=True)
    ]


def _pairs(headers: npt.NDArray[np.void]) -> tuple[Ints, Ints, Ints]:
    """(sm, cycle, globaltimer) of every clock pair of a launch."""
    written = headers[(headers["magic"] == MAGIC) & (headers["end_clock"] != 0)]
    sm = np.concatenate([written["sm"], written["sm"]]).astype(np.int64)
    cycle = np.concatenate([written["start_clock"], written["end_clock"]]).astype(np.int64)
    gtime = np.concatenate([written["start_globaltimer"], written["end_globaltimer"]]).astype(np.int64)
    return sm, cycle, gtime


def _slope(sm: Ints, cycle: Ints, gtime: Ints, step: float) -> tuple[float, float]:
    """ns per cycle by least squares, each SM about its own mean, and its standard error; NaNs if unknown.

    The error of one globaltimer reading is uniform over one step: its standard deviation is step / sqrt(12).
    """
    if not len(sm) or np.ptp(gtime) == 0:
        return float("nan"), float("nan")
    _, group = np.unique(sm, return_inverse=True)
    count = np.bincount(group)
    # Subtract as integers first: clock64 values squared exceed what float64 holds exactly.
    x = cycle - cycle.min()
    y = gtime - gtime.min()
    x = x - (np.bincount(group, x) / count)[group]
    y = y - (np.bincount(group, y) / count)[group]
    spread = float(np.dot(x, x))
    slope = float(np.dot(x, y)) / spread if spread > 0 else 0.0
    if not slope > 0:
        return float("nan"), float("nan")
    return slope, step / math.sqrt(12 * spread)


def _anchor(sm: Ints, cycle: Ints, gtime: Ints, slope: float, step: float) -> TimeBase:
    """The time base with this slope: one origin per SM, uncertainty from the residuals."""
    if not len(sm) or not slope > 0:
        nothing = np.zeros(0, np.int64)
        return TimeBase(float("nan"), nothing, nothing, np.zeros(0), 0, float("nan"))
    sms, group = np.unique(sm, return_inverse=True)
    epoch = int(gtime.min())
    origin_cycle = np.full(len(sms), np.iinfo(np.int64).max)
    np.minimum.at(origin_cycle, group, cycle)
    true_ns = gtime - epoch + step / 2  # a reading is up to one step before the truth
    residual = true_ns - (cycle - origin_cycle[group]) * slope
    origin_ns = np.bincount(group, residual) / np.bincount(group)
    uncertainty = float(np.max(np.abs(residual - origin_ns[group]))) + step / 2
    return TimeBase(slope, sms, origin_cycle, origin_ns, epoch, uncertainty)
