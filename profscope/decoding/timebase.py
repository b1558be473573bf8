"""Cycles to nanoseconds, from the clock pairs the CTAs themselves read; no frequency is ever assumed.

Every CTA header holds two pairs (clock64, globaltimer), one at its start and one at its end. SM clocks are
neither constant nor equal: on an H200 the clock was seen to drop from 1.63 to 1.47 GHz and back within one
190 us matmul, and SMs of one launch to differ by 1.3 %. So each SM gets a curve of its own: its pairs are
averaged in windows, and between the averages time is linear. If a launch is too short for that, SMs share the
slope of the launch, or of the session. CTAs that do not record read both clocks when they begin, and the
globaltimer when they end: their times are its readings, their first pairs part of the curves.

The globaltimer advances in steps (32 ns on an H200), so a reading lies up to one step before the truth;
half a step is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.build import RawLaunch
from profscope.decoding.decoded import DecodedLaunch
from profscope.instrument_passes.records import MAX_STAMPED, PLACE_RANK_SHIFT, stamp_duration_ns

__all__ = ["Readings", "Stamped", "TimeBase", "fit", "readings", "sms_of_stamps", "stamped"]

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
    """Maps (sm, cycle) to ns, for one launch or for L that are decoded as one (see `SeveralLaunches`).

    clock_ghz: mean cycles per ns, NaN if a launch gave nothing to fit; uncertainty_ns: what a timestamp
    may be off by: the largest distance of a measured pair from the curve and half a step of the globaltimer.
    Both of shape (L,). step_ns: of the globaltimer. sms: SM ids, sorted. first, last: per SM, its points;
    epoch_ns: since when these count. point_*: all SMs' points one after another: cycle, ns since the epoch,
    ns per cycle from there on.
    """

    clock_ghz: Floats
    sms: Ints
    first: Ints
    last: Ints
    point_cycle: Ints
    point_ns: Floats
    point_slope: Floats
    epoch_ns: Ints
    uncertainty_ns: Floats
    step_ns: int

    def read_to_ns(self, read: Ints) -> Ints:
        """Readings of the globaltimer like those of `to_ns`, half a step later; zeros without a fit."""
        return read + self.step_ns // 2 if len(self.sms) else np.zeros_like(read)

    def to_ns(self, cycle: Ints, sm: npt.NDArray[np.signedinteger[Any]]) -> Ints:
        """Absolute globaltimer ns (floor), int64; zeros when there was nothing to fit."""
        if not len(self.sms):
            return np.zeros(len(cycle), np.int64)
        # Neighbouring rows are mostly of one CTA, and so of one SM: what is looked up for one serves many.
        opens = np.ones(len(sm), bool)
        np.not_equal(sm[1:], sm[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        return self.stretches_to_ns(cycle, sm[first], first)

    def stretches_to_ns(self, cycle: Ints, sm: npt.NDArray[np.signedinteger[Any]], first: Ints) -> Ints:
        """As `to_ns`, of rows that come in stretches of one SM each; sm, first: by stretch, the SM and the
        first row."""
        if not len(self.sms):
            return np.zeros(len(cycle), np.int64)
        at = self._place[sm]
        relative = self._relative(cycle, at, first)
        epoch: Any = self.epoch_ns[0]
        if len(self.clock_ghz) > 1:
            epoch = np.repeat(self.epoch_ns[at], np.diff(first, append=len(cycle)))
        return np.asarray(epoch + np.floor(relative, out=relative).astype(np.int64), np.int64)

    @cached_property
    def _place(self) -> Ints:
        """Position in `sms`, by SM id."""
        place = np.zeros(int(self.sms[-1]) + 1, np.int64)
        place[self.sms] = np.arange(len(self.sms))
        return place

    def _relative(self, cycle: Ints, at: Ints, first: Ints) -> Floats:
        """ns since the epoch. Beyond its ends a curve goes on straight.

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


class _LaunchClocks(NamedTuple):
    """Of L launches. steps: the greatest common divisors of their globaltimer readings, ns; 0 if there are
    none.

    slope: ns per cycle by least squares, each SM about its own mean, NaN if nothing tells; spread: the
    squares of the distances of its cycles from their means, summed up; each of shape (L,).
    """

    steps: Ints
    slope: Floats
    spread: Floats

    @property
    def step(self) -> int:
        """Of the globaltimer, ns."""
        return int(np.gcd.reduce(self.steps, initial=0))

    @property
    def mean_slope(self) -> float:
        """The mean slope of the launches, ns per cycle, each weighted by its precision; NaN if none tells."""
        known = np.isfinite(self.slope)
        spread = float(self.spread[known].sum())
        return float(self.spread[known] @ self.slope[known]) / spread if spread else float("nan")


class Readings(NamedTuple):
    """The clock pairs of L launches, those of each one after the other: its starts, then its ends, then the
    starts of stamps.

    first: per launch its first pair, and one more. sm, cycle, gtime: one entry each.
    """

    first: Ints
    sm: Ints
    cycle: Ints
    gtime: Ints

    @property
    def some(self) -> Ints:
        """The launches that have any."""
        return np.flatnonzero(np.diff(self.first))


def readings(
    headers: npt.NDArray[np.void],
    launch: Ints | None = None,
    launches: int = 1,
    stamped: Stamped | None = None,
) -> Readings:
    """The clock readings of CTA headers (CTA dtype, see `areas`) of CTAs that ended.

    launch: of each header, if there are several launches. stamped: CTAs whose starts are readings, too.
    """
    ran = headers["end_clock"] != 0
    written = headers[ran]
    sm, cycle, gtime = (
        np.concatenate([written[start], written[end]]).astype(np.int64)
        for start, end in (
            ("sm", "sm"),
            ("start_clock", "end_clock"),
            ("start_globaltimer", "end_globaltimer"),
        )
    )
    if stamped is not None and len(stamped.sm):
        sm, cycle, gtime = (
            np.concatenate(pair)
            for pair in ((sm, stamped.sm), (cycle, stamped.start_cycle), (gtime, stamped.start_ns))
        )
    if launch is None:
        return Readings(np.array([0, len(sm)]), sm, cycle, gtime)
    owner = np.tile(launch[ran], 2)
    if stamped is not None:
        owner = np.concatenate([owner, stamped.launch])
    order = np.argsort(owner, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(owner, minlength=launches)))
    return Readings(first, sm[order], cycle[order], gtime[order])


def fit(
    parts: Sequence[Readings], places: Sequence[Ints] | None = None, clock_ghz: float | None = None
) -> list[TimeBase]:
    """Fit the time bases of a session's launches, one for each of `parts`.

    places: of each part's launches where they stand among all, unless they stand as they come; in that order
    they are added up. clock_ghz: of all launches, if it is known, as on the emulator.

    A launch whose own slope is known to better than 0.1 % keeps it; a shorter one takes the mean slope of the
    session, each launch weighted by its precision. If no launch is long enough to see the globaltimer
    advance, the time bases map everything to 0 ns and have clock_ghz NaN.
    """
    clocks = _launch_clocks(parts)
    in_order = slice(None) if places is None else np.argsort(np.concatenate([*places, np.zeros(0, np.int64)]))
    session = _LaunchClocks(clocks.steps[in_order], clocks.slope[in_order], clocks.spread[in_order])
    own = _slope_errors(session.step, clocks.spread) < MAX_RELATIVE_ERROR * clocks.slope
    slopes = np.where(own, clocks.slope, session.mean_slope)
    if clock_ghz is not None:
        slopes = np.full(len(slopes), 1 / clock_ghz)
    ends = np.cumsum([0, *(len(each.first) - 1 for each in parts)])
    return [
        _curves(each, slopes[begin:end], session.step)
        for each, begin, end in zip(parts, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


def _launch_clocks(parts: Sequence[Readings]) -> _LaunchClocks:
    """What launches say of the clocks."""
    each = [_LaunchClocks(np.zeros(0, np.int64), np.zeros(0), np.zeros(0)), *map(_clocks, parts)]
    return _LaunchClocks(
        np.concatenate([clocks.steps for clocks in each]),
        np.concatenate([clocks.slope for clocks in each]),
        np.concatenate([clocks.spread for clocks in each]),
    )


def _clocks(pairs: Readings) -> _LaunchClocks:
    launches, some = len(pairs.first) - 1, pairs.some
    begins = pairs.first[some]
    steps, slopes, spreads = np.zeros(launches, np.int64), np.full(launches, np.nan), np.zeros(launches)
    if not len(some):
        return _LaunchClocks(steps, slopes, spreads)
    steps[some] = np.gcd.reduceat(pairs.gtime, begins)
    _, group = np.unique(pairs.sm, return_inverse=True)
    count, sizes = np.bincount(group), np.diff(pairs.first)[some]
    away = []
    for values in (pairs.cycle, pairs.gtime):
        # Subtract as integers first: clock64 values squared exceed what float64 holds exactly.
        since = values - np.repeat(np.minimum.reduceat(values, begins), sizes)
        away.append(since - (np.bincount(group, since) / count)[group])
    x, y = away
    ticked = np.maximum.reduceat(pairs.gtime, begins) > np.minimum.reduceat(pairs.gtime, begins)
    for launch in some[ticked].tolist():
        mine = slice(int(pairs.first[launch]), int(pairs.first[launch + 1]))
        spread = float(np.dot(x[mine], x[mine]))
        slope = float(np.dot(x[mine], y[mine])) / spread if spread > 0 else 0.0
        if slope > 0:
            slopes[launch], spreads[launch] = slope, spread
    return _LaunchClocks(steps, slopes, spreads)


def _slope_errors(step: int, spreads: Floats) -> Floats:
    """Standard errors of slopes, ns per cycle. step: of the globaltimer, ns; spreads: see `_LaunchClocks`.

    The error of one globaltimer reading is uniform over one step: its standard deviation is step / sqrt(12).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        errors: Floats = step / np.sqrt(12 * spreads)
    return errors


def _curves(pairs: Readings, slopes: Floats, step: int) -> TimeBase:
    """One curve per SM through its pairs; slopes: by launch, ns per cycle, for SMs with a single point."""
    some = pairs.some[slopes[pairs.some] > 0]
    clock_ghz, uncertainty = np.full(len(slopes), np.nan), np.full(len(slopes), np.nan)
    if not len(some):
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return TimeBase(clock_ghz, none, none, none, none, nothing, nothing, none, uncertainty, step)
    launch = np.repeat(np.arange(len(slopes)), np.diff(pairs.first))
    order = np.lexsort((pairs.cycle, pairs.sm))  # SM ids of a launch are above those of the ones before
    if len(some) < len(pairs.some):
        order = order[np.isin(launch[order], some)]
    sm, cycle, gtime, launch = pairs.sm[order], pairs.cycle[order], pairs.gtime[order], launch[order]
    begins = np.searchsorted(launch, some)
    place = np.searchsorted(some, launch)
    least = np.minimum.reduceat(gtime, begins)
    epoch, slope = least[place], slopes[launch]
    true_ns: Floats = np.asarray(gtime - epoch + step / 2, np.float64)
    sms, at = np.unique(sm, return_inverse=True)
    span_ns = (np.maximum.reduceat(gtime, begins) - least).astype(np.float64)
    group = _group(at, true_ns, np.maximum(WINDOW_STEPS * step, span_ns / MAX_WINDOWS)[place])
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
    point_slope: Floats = slope[start]
    follows = np.flatnonzero(owner[1:] == owner[:-1])
    point_slope[follows] = (mean_ns[follows + 1] - mean_ns[follows]) / (
        mean_cycle[follows + 1] - mean_cycle[follows]
    )
    ends = last[last > first]
    point_slope[ends] = point_slope[ends - 1]
    clock_ghz[some] = 1 / slopes[some]
    sm_begins = np.searchsorted(at, np.arange(len(sms)))
    base = TimeBase(
        clock_ghz, sms, first, last, mean_cycle, mean_ns, point_slope, epoch[sm_begins], uncertainty, step
    )
    off = np.abs(true_ns - base._relative(cycle, np.arange(len(sms)), sm_begins))
    uncertainty[some] = np.maximum.reduceat(off, begins) + step / 2
    return base


def _group(at: Ints, ns: Floats, width: Floats) -> Ints:
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
    joins[1:] = (owner[1:] == owner[:-1]) & (np.diff(mean) < width[opens][1:] / 2)
    joined: Ints = np.cumsum(~joins) - 1
    return np.asarray(joined[group], np.int64)


# When CTAs that did not record began and ended, from their stamps.
#
# A stamp has the low halves of clocks. The CTAs of the launch that recorded have them in full, so the upper
# halves follow, if a CTA began within 2 s of them.


class Stamped(NamedTuple):
    """CTAs of L launches that did not record and came to their end, by launch and linear id; arrays of shape
    (CTAs,).

    launch: from 0 to L - 1. sm: as decoding numbers it. Cycles are of the SM's clock64; those of an SM that
    no recorded CTA ran on may all be off by the same multiple of 2^32. ns are the globaltimer's.
    """

    launch: Ints
    cta: Ints
    sm: Ints
    start_cycle: Ints
    end_cycle: Ints
    start_ns: Ints
    end_ns: Ints


def sms_of_stamps(raws: Sequence[RawLaunch]) -> int:
    """One more than the greatest SM that stamps name."""
    return max((int(_sms(stamps).max()) + 1 for raw in raws if len(stamps := raw.stamps)), default=0)


def _sms(stamps: npt.NDArray[np.void]) -> Ints:
    sms: Ints = (stamps["place"] & ((1 << PLACE_RANK_SHIFT) - 1)).astype(np.int64)
    return sms


def stamped(raws: Sequence[RawLaunch], decoded: DecodedLaunch) -> Stamped:
    """Stamped CTAs of launches that are decoded as one, without launches whose recorded CTAs all did not
    end."""
    stamps = np.stack([raw.stamps for raw in raws])
    ended = decoded.headers["end_clock"] != 0
    headers = decoded.headers[ended]
    of = np.zeros(len(headers), np.int64) if decoded.several is None else decoded.several.header[ended]
    known, known_at = np.unique(of, return_index=True)
    launch, cta = np.nonzero((stamps["duration_cycles"] != 0) & np.isin(range(len(raws)), known)[:, None])
    if not len(launch):
        return Stamped(*(np.zeros(0, np.int64) for _ in Stamped._fields))
    stamps = stamps[launch, cta]
    clock, ns = (headers[name].astype(np.int64) for name in ("end_clock", "end_globaltimer"))
    start_clock, start_ns = (headers[n].astype(np.int64) for n in ("start_clock", "start_globaltimer"))
    cycles_per_ns = float((clock - start_clock).sum() / max(1, (ns - start_ns).sum()))
    reference = known_at[np.searchsorted(known, launch)]
    begun_ns, low = _nearest(ns[reference], stamps["start_ns_low"]), stamps["start_clock_low"]
    sm = _sms(stamps)
    if decoded.several is not None:
        sm += launch * decoded.several.apart.sms
    ctas, half = raws[0].ctas, MAX_STAMPED // 2
    cta = np.where(cta < half, cta, cta + max(0, ctas - MAX_STAMPED))
    # By SM a moment of its clock: of a recorded CTA; if there is none, of a stamp, as if clocks were in step.
    sms, first, of_sm = np.unique(sm, return_index=True, return_inverse=True)
    since = (begun_ns[first] - ns[reference[first]]) * cycles_per_ns
    moment = _nearest(clock[reference[first]] + since.astype(np.int64), low[first])
    moment_ns = begun_ns[first]
    recorded, recorded_at = np.unique(headers["sm"].astype(np.int64), return_index=True)
    _, at, where = np.intersect1d(sms, recorded, assume_unique=True, return_indices=True)
    moment[at], moment_ns[at] = clock[recorded_at[where]], ns[recorded_at[where]]
    since = (begun_ns - moment_ns[of_sm]) * cycles_per_ns
    begun = _nearest(moment[of_sm] + since.astype(np.int64), low)
    return Stamped(
        launch, cta, sm, begun, begun + stamps["duration_cycles"],
        begun_ns, begun_ns + stamp_duration_ns(stamps["place"]),
    )  # fmt: skip


def _nearest(expected: Ints, low: npt.NDArray[np.unsignedinteger[Any]]) -> Ints:
    """The numbers next to those that are expected that have these low 32 bits."""
    return expected + (low - expected.astype(np.uint32)).astype(np.int32)
