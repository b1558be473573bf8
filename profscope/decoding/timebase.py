"""Cycles to nanoseconds, from the clock pairs the CTAs themselves read; no frequency is ever assumed.

Every CTA header holds two pairs (clock64, globaltimer), one at its start and one at its end. SM clocks are
neither constant nor equal: on an H200 the clock was seen to drop from 1.63 to 1.47 GHz and back within one
190 us matmul, and SMs of one launch to differ by 1.3 %. So each SM gets a curve of its own: its pairs are
averaged in windows, and between the averages time is linear. Where a launch is too short for that, SMs share
the slope of the launch, or of the session.

The globaltimer advances in steps (32 ns on an H200), so a reading lies up to one step before the truth;
half a step is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.decoding.clocks import NO_CLOCKS, Clocks, LaunchClocks

__all__ = ["TimeBase", "fit", "launch_clocks", "session_slope", "slope_errors"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# A launch whose own slope is known better than this keeps it; others take the session's.
MAX_RELATIVE_ERROR = 1e-3
# Windows are this many steps of the globaltimer wide: slopes between them are good to about 0.1 %.
WINDOW_STEPS = 500
# Long launches get wider windows, so that a curve has at most about so many points.
MAX_WINDOWS = 256
# Bits for cycles in the keys that find a cycle's place on its SM's curve.
_KEY_BITS = 46
_NEVER = np.iinfo(np.int64).max  # cycles


@dataclass(frozen=True)
class TimeBase:
    """Maps (sm, cycle) to ns.

    clock_ghz: mean cycles per ns of the launch, NaN when it gave nothing to fit. sms: SM ids, sorted.
    first: per SM, its first point. point_*: all SMs' points one after another: cycle, ns since epoch_ns, and
    ns per cycle from there on. uncertainty_ns: what a timestamp may be off by: the largest distance of a
    measured pair from the curve and half a step of the globaltimer.
    """

    clock_ghz: float
    sms: Ints
    first: Ints
    last: Ints
    point_cycle: Ints
    point_ns: Floats
    point_slope: Floats
    epoch_ns: int
    uncertainty_ns: float

    def to_ns(self, cycle: Ints, sm: npt.NDArray[np.signedinteger[Any]]) -> Ints:
        """Absolute globaltimer ns (floor), int64; zeros when there was nothing to fit."""
        if not len(self.sms):
            return np.zeros(len(cycle), np.int64)
        # Neighbouring rows are mostly of one CTA, and so of one SM: what is looked up for one serves many.
        opens = np.ones(len(sm), bool)
        np.not_equal(sm[1:], sm[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        relative = self._relative(cycle, self._place[sm[first]], first)
        return self.epoch_ns + np.floor(relative, out=relative).astype(np.int64)

    @cached_property
    def _place(self) -> Ints:
        """Position in `sms`, by SM id."""
        place = np.zeros(int(self.sms[-1]) + 1, np.int64)
        place[self.sms] = np.arange(len(self.sms))
        return place

    def _relative(self, cycle: Ints, at: Ints, first: Ints) -> Floats:
        """ns since epoch_ns. Beyond its ends a curve goes on straight.

        The rows come in stretches of one SM each: at, its position in `sms`, and first, its first row.
        """
        counts = np.diff(first, append=len(cycle))
        if len(self.point_cycle) == len(self.sms) or not len(cycle):
            return self._along(cycle, np.repeat(self.first[at], counts))
        lowest = self._point(np.minimum.reduceat(cycle, first), at)
        highest = self._point(np.maximum.reduceat(cycle, first), at)
        # From its first point on or from the next, for a stretch that no more than two lines cross.
        point = np.repeat(lowest, counts)
        if (lowest < highest).any():
            point += cycle >= np.repeat(np.where(lowest < highest, self.point_cycle[highest], _NEVER), counts)
        if (highest - lowest > 1).any():
            several = np.repeat(highest - lowest > 1, counts)
            point[several] = self._point(cycle[several], np.repeat(at, counts)[several])
        return self._along(cycle, point)

    def _point(self, cycle: Ints, at: Ints) -> Ints:
        """The point from which the curve of the SM at position `at` goes through `cycle`."""
        origin, length, keys = self._keys
        along = np.clip(cycle - origin[at], 0, length[at])
        point: Ints = np.searchsorted(keys, (at << _KEY_BITS) + along, side="right") - 1
        return point

    @cached_property
    def _keys(self) -> tuple[Ints, Ints, Ints]:
        """Per SM the cycle of its first point and those up to its last; per point, what it is found by."""
        origin = self.point_cycle[self.first]
        length = self.point_cycle[self.last] - origin
        sm_of_point = np.repeat(np.arange(len(self.sms)), self.last - self.first + 1)
        return origin, length, (sm_of_point << _KEY_BITS) + self.point_cycle - origin[sm_of_point]

    def _along(self, cycle: Ints, point: Ints) -> Floats:
        # Each step into memory that the last one has just used.
        since = self.point_cycle.take(point)
        np.subtract(cycle, since, out=since)
        ns: Floats = self.point_slope.take(point)
        np.multiply(since, ns, out=ns)
        np.add(self.point_ns.take(point), ns, out=ns)
        return ns


def fit(headers: Sequence[npt.NDArray[np.void]], others: Clocks = NO_CLOCKS) -> list[TimeBase]:
    """Fit one time base per launch of a session.

    headers: one array of CTA dtype (see `areas`) per launch (unwritten ones are left out); others: what other
    launches of the session say. A launch whose own slope is known to better than 0.1 % keeps it; a shorter
    one takes the mean slope of the session, each launch weighted by its precision. If no launch is long
    enough to see the globaltimer advance, the time bases map everything to 0 ns and have clock_ghz NaN.
    """
    pairs = [_pairs(h) for h in headers]
    clocks = _clocks(pairs)
    session = others.with_launches(clocks)
    own = slope_errors(session.step, clocks.spread) < MAX_RELATIVE_ERROR * clocks.slope
    slopes = np.where(own, clocks.slope, session_slope(session)).tolist()
    return [_curves(*p, slope, float(session.step)) for p, slope in zip(pairs, slopes, strict=True)]


def launch_clocks(headers: Sequence[npt.NDArray[np.void]]) -> LaunchClocks:
    """What launches say of the clocks. headers: as in `fit`."""
    return _clocks([_pairs(h) for h in headers])


def _clocks(pairs: Sequence[tuple[Ints, Ints, Ints]]) -> LaunchClocks:
    steps = np.array([np.gcd.reduce(gtime) for _, _, gtime in pairs], np.int64)
    slopes, spreads = np.array([_slope(*p) for p in pairs]).reshape(-1, 2).T
    return LaunchClocks(steps, slopes, spreads)


def session_slope(clocks: Clocks) -> float:
    """The mean slope of a session's launches, ns per cycle, each weighted by its precision; NaN if none
    tells."""
    return clocks.slopes / clocks.spread if clocks.spread else float("nan")


def slope_errors(step: int | Ints, spreads: Floats) -> Floats:
    """Standard errors of slopes, ns per cycle. step: of the globaltimer, ns; spreads: see `LaunchClocks`.

    The error of one globaltimer reading is uniform over one step: its standard deviation is step / sqrt(12).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        errors: Floats = step / np.sqrt(12 * spreads)
    return errors


def _pairs(headers: npt.NDArray[np.void]) -> tuple[Ints, Ints, Ints]:
    """(sm, cycle, globaltimer) of every clock pair of a launch."""
    ran = headers[headers["end_clock"] != 0]
    sm = np.concatenate([ran["sm"], ran["sm"]]).astype(np.int64)
    cycle = np.concatenate([ran["start_clock"], ran["end_clock"]]).astype(np.int64)
    gtime = np.concatenate([ran["start_globaltimer"], ran["end_globaltimer"]]).astype(np.int64)
    return sm, cycle, gtime


def _slope(sm: Ints, cycle: Ints, gtime: Ints) -> tuple[float, float]:
    """A launch's slope and spread (see `LaunchClocks`); NaN and 0 if unknown."""
    if not len(sm) or np.ptp(gtime) == 0:
        return float("nan"), 0.0
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
        return float("nan"), 0.0
    return slope, spread


def _curves(sm: Ints, cycle: Ints, gtime: Ints, slope: float, step: float) -> TimeBase:
    """One curve per SM through its pairs; `slope` (ns per cycle) serves SMs with a single point."""
    if not len(sm) or not slope > 0:
        none = np.zeros(0, np.int64)
        nothing: Floats = np.zeros(0)
        return TimeBase(float("nan"), none, none, none, none, nothing, nothing, 0, float("nan"))
    order = np.lexsort((cycle, sm))
    sm, cycle, epoch = sm[order], cycle[order], int(gtime.min())
    true_ns: Floats = np.asarray(gtime[order] - epoch + step / 2, np.float64)
    sms, at = np.unique(sm, return_inverse=True)
    width = max(WINDOW_STEPS * step, float(np.ptp(gtime)) / MAX_WINDOWS)
    group = _group(at, true_ns, width)
    count = np.bincount(group)
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    # The mean of a window's pairs, as an exact cycle and the ns that belongs to it on the window's own line.
    origin = cycle[start]
    mean_cycle = origin + (np.bincount(group, cycle - origin[group]) / count).astype(np.int64)
    line_ns = true_ns - (cycle - mean_cycle[group]) * slope
    mean_ns: Floats = np.asarray(np.bincount(group, line_ns) / count, np.float64)
    owner = at[start]
    first = np.searchsorted(owner, np.arange(len(sms)))
    last = np.searchsorted(owner, np.arange(len(sms)), side="right") - 1
    slopes: Floats = np.full(len(owner), slope, np.float64)
    follows = np.flatnonzero(owner[1:] == owner[:-1])
    slopes[follows] = (mean_ns[follows + 1] - mean_ns[follows]) / (
        mean_cycle[follows + 1] - mean_cycle[follows]
    )
    ends = last[last > first]
    slopes[ends] = slopes[ends - 1]
    base = TimeBase(1 / slope, sms, first, last, mean_cycle, mean_ns, slopes, epoch, 0.0)
    places = np.arange(len(sms))
    off = np.abs(true_ns - base._relative(cycle, places, np.searchsorted(at, places)))
    return replace(base, uncertainty_ns=float(off.max()) + step / 2)


def _group(at: Ints, ns: Floats, width: float) -> Ints:
    """Number the windows that pairs fall into: `width` ns wide, one SM each; pairs are sorted by SM and time.

    Windows whose pairs lie close to those of the window before join it, or the slope between them would be
    that of the timer's steps.
    """
    window = np.floor(ns / width).astype(np.int64)
    opens = np.ones(len(at), bool)
    opens[1:] = (at[1:] != at[:-1]) | (window[1:] != window[:-1])
    group = np.cumsum(opens) - 1
    mean = np.bincount(group, ns) / np.bincount(group)
    owner = at[opens]
    joins = np.zeros(len(owner), bool)
    joins[1:] = (owner[1:] == owner[:-1]) & (np.diff(mean) < width / 2)
    joined: Ints = np.cumsum(~joins) - 1
    return np.asarray(joined[group], np.int64)
