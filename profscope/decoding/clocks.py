"""How fast the clocks of launches ran, many launches at once: what `timebase` fits to each of them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import HeaderTimes

__all__ = ["NO_CLOCKS", "Clocks", "LaunchClocks", "clocks_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_NEVER: Final = np.iinfo(np.int64).max
_FEW: Final = 16


class LaunchClocks(NamedTuple):
    """Of L launches. steps: the greatest common divisors of their globaltimer readings, ns; 0 if there are
    none.

    slope: ns per cycle by least squares, each SM about its own mean, NaN where nothing tells; spread: the
    squares of the distances of its cycles from their means, summed up; each of shape (L,).
    """

    steps: Ints
    slope: Floats
    spread: Floats


class Clocks(NamedTuple):
    """What launches say of the clocks of a device. step: of the globaltimer, ns; spread: the sum of theirs,
    and
    slopes: of their slopes, each times its spread."""

    step: int
    spread: float
    slopes: float

    def with_launches(self, clocks: LaunchClocks) -> Clocks:
        """These launches, too."""
        known = np.isfinite(clocks.slope)
        spread, slope = clocks.spread[known], clocks.slope[known]
        step = int(np.gcd.reduce(clocks.steps, initial=self.step))
        return Clocks(step, self.spread + float(spread.sum()), self.slopes + float(spread @ slope))


NO_CLOCKS: Final = Clocks(0, 0.0, 0.0)


def clocks_of(sm: npt.NDArray[np.uint16], times: HeaderTimes, valid: Flags) -> LaunchClocks:
    """sm, times: what CTA headers say, shape (L, C); valid: those that count."""
    launches = len(sm)
    most = int(sm.max(initial=0)) + 1
    key = (sm + np.arange(launches)[:, None] * most).reshape(-1)
    count = np.maximum(np.bincount(key, valid.reshape(-1), launches * most), 1)
    cycles, ns = times[:2], times[2:]
    away = []
    for start, end in (cycles, ns):
        # As integers first: clock64 values exceed what float64 holds exactly.
        first = np.where(valid, start, _NEVER).min(axis=1, initial=_NEVER)[:, None]
        began, took = (start - first) * valid, (end - start) * valid
        mean = (np.bincount(key, (2 * began + took).reshape(-1), launches * most) / (2 * count))[key]
        since = (began - mean.reshape(began.shape)) * valid
        away.append((since, since + took))
    (x_start, x_end), (y_start, y_end) = away
    spread = np.einsum("lc,lc->l", x_start, x_start) + np.einsum("lc,lc->l", x_end, x_end)
    both = np.einsum("lc,lc->l", x_start, y_start) + np.einsum("lc,lc->l", x_end, y_end)
    slope = both / np.where(spread > 0, spread, 1)
    return LaunchClocks(_steps(ns, valid), np.where(slope > 0, slope, np.nan), spread)


def _steps(times: tuple[Ints, ...], valid: Flags) -> Ints:
    """Mostly a few readings have the divisor of all, and then dividing by it is quicker than to search."""
    readings = np.concatenate([np.where(valid, each, 0) for each in times], axis=1)
    steps: Ints = np.gcd.reduce(readings[:, :_FEW], axis=1)
    odd = (readings % np.maximum(steps, 1)[:, None]).any(axis=1) | (steps == 0)
    steps[odd] = np.gcd.reduce(readings[odd], axis=1)
    return steps
