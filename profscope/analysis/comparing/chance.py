"""Tests whether a change is more than noise: launches are the independent trials, above a floor.

The mean of a row's launches is trimmed: of five launches and more the fastest and the slowest fifth are left
out. Two of them are compared as Yuen does (Biometrika 61, 1974): Welch's t test of trimmed means, with the
variances of the winsorised values. The spread does not show what launches of one session share: places of
memory and code, the clock. The `floor` accounts for it: the test is whether a change is larger than the
floor. Benjamini and Hochberg's procedure (J. R. Statist. Soc. B 57, 1995) then chooses the significant rows,
so that many rows do not give false ones by their number.

Student's t is integrated here: no package that a profile needs has it, and scipy would be the largest of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.spans.rows import Floats

__all__ = [
    "FALSE_DISCOVERIES",
    "NO_FLOOR",
    "Change",
    "Floor",
    "Sample",
    "benjamini_hochberg",
    "compared",
    "floor_of",
    "sample_of_ctas",
    "sample_of_launches",
]

FALSE_DISCOVERIES: Final = 0.05
"""Of the rows that are called significant, at most this part is noise, in the long run."""

_CONFIDENCE: Final = 0.95
_MOST_FREEDOM: Final = 1000.0
_TRIMMED: Final = 0.2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
_LEAST_SPREAD: Final = 1e-3
"""Relative: a few launches may agree better than that by chance, for clocks count in steps."""


class Sample(NamedTuple):
    """One side's figures, by row: their mean, the variance of this mean, and its degrees of freedom.

    variance is NaN for one launch of one CTA.
    """

    mean: Floats
    variance: Floats
    freedom: Floats


def sample_of_launches(figures: Floats) -> Sample:
    """figures: one row each, one launch a column; float64 of shape (rows, launches)."""
    rows, launches = figures.shape
    cut = int(_TRIMMED * launches)
    ordered = np.sort(figures, axis=1)
    kept = launches - 2 * cut
    mean = ordered[:, cut : launches - cut].mean(axis=1)
    if launches < 2:
        return Sample(mean, np.full(rows, np.nan), np.zeros(rows))
    winsorised = np.clip(ordered, ordered[:, [cut]], ordered[:, [launches - 1 - cut]])
    spread = np.maximum(winsorised.var(axis=1, ddof=1), (_LEAST_SPREAD * mean) ** 2)
    variance = (launches - 1) * spread / (kept * (kept - 1))
    return Sample(mean, variance, np.full(rows, kept - 1.0))


def sample_of_ctas(figures: Floats, scale: float) -> Sample:
    """The sample of one launch. figures: by row and CTA, float64 of shape (rows, CTAs); scale: launch's sum
    over CTAs' sum.

    The mean is the launch's sum. Its variance is that of CTAs drawn from many.
    """
    rows, ctas = figures.shape
    total = figures.sum(axis=1) * scale
    if ctas < 2:
        return Sample(total, np.full(rows, np.nan), np.zeros(rows))
    variance = figures.var(axis=1, ddof=1) * ctas * scale**2
    return Sample(total, np.maximum(variance, (_LEAST_SPREAD * total) ** 2), np.full(rows, ctas - 1.0))


@dataclass(frozen=True, eq=False)
class Change:
    """By row: b less a; its 95 % interval, the floor included; and the probability of a change so large if
    it were really within the floor."""

    change: Floats
    low: Floats
    high: Floats
    probability: Floats


def compared(a: Sample, b: Sample, floor: Floats) -> Change:
    """floor: by row, the size of change that is no effect; 0 and above."""
    change = b.mean - a.mean
    # Of one launch nothing is known of the spread: it is taken to be the other side's.
    alone_a, alone_b = np.isnan(a.variance), np.isnan(b.variance)
    variance_a = np.where(alone_a, _of_one(b), a.variance)
    variance_b = np.where(alone_b, _of_one(a), b.variance)
    freedom_a = np.where(alone_a, b.freedom, a.freedom)
    freedom_b = np.where(alone_b, a.freedom, b.freedom)
    variance = variance_a + variance_b
    with np.errstate(divide="ignore", invalid="ignore"):
        below = variance_a**2 / freedom_a + variance_b**2 / freedom_b
        freedom = np.where(variance > 0, variance**2 / below, 1.0)
        shared = alone_a | alone_b  # one estimate stands for both
        freedom = np.where(shared & (variance > 0), np.maximum(freedom_a, freedom_b), freedom)
    error = np.sqrt(variance)
    beyond, within = np.abs(change) - floor, np.abs(change) + floor
    with np.errstate(divide="ignore", invalid="ignore"):
        tails = _upper_tail(beyond / error, freedom) + _upper_tail(within / error, freedom)
    certain = np.where((beyond > 0) & ~_equal(a.mean, b.mean), 0.0, 1.0)
    probability = np.where(error > 0, np.minimum(tails, 1.0), certain)
    half = _quantiles(freedom) * error + floor
    return Change(change, change - half, change + half, probability)


def _of_one(other: Sample) -> Floats:
    """The variance of one launch, where the other side has several; 0 if it has not."""
    return np.nan_to_num(other.variance * (other.freedom + 1))


def _equal(a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Means of the same whole numbers are equal but for their rounding."""
    return np.asarray(np.isclose(a, b, rtol=1e-12, atol=0.0), np.bool_)


def benjamini_hochberg(probability: Floats) -> NDArray[np.bool_]:
    """By row, whether it is news: Benjamini and Hochberg at FALSE_DISCOVERIES."""
    count = len(probability)
    order = np.argsort(probability, kind="stable")
    passed = np.flatnonzero(probability[order] <= FALSE_DISCOVERIES * np.arange(1, count + 1) / max(count, 1))
    result = np.zeros(count, np.bool_)
    result[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return result


def _quantiles(freedom: Floats) -> Floats:
    """What |t| exceeds in 5 of 100 cases. Newton's steps come from below and never pass it, for the tail is
    convex."""
    freedom, at = np.unique(np.clip(freedom, 1.0, _MOST_FREEDOM), return_inverse=True)
    scale = np.sqrt(freedom) * 2 * _area(np.zeros(len(freedom)), freedom)
    t = np.full(len(freedom), 1.9)
    for _ in range(12):
        density = (1 + t * t / freedom) ** (-(freedom + 1) / 2) / scale
        t = t + (_upper_tail(t, freedom) - (1 - _CONFIDENCE) / 2) / density
    return np.asarray(t[at], np.float64)


def _upper_tail(t: Floats, freedom: Floats) -> Floats:
    """The probability that Student's t with so many degrees of freedom is more than t; of those with less
    than 1 as with 1, of those with more than 1,000 as with 1,000, which is hardly more cautious."""
    freedom = np.clip(freedom, 1.0, _MOST_FREEDOM)
    beyond = _area(np.arctan(np.abs(t) / np.sqrt(freedom)), freedom)
    tail = beyond / _area(np.zeros(len(freedom)), freedom) / 2
    return np.where(np.isnan(t), 1.0, np.where(t >= 0, tail, 1 - tail))


def _area(angle: Floats, freedom: Floats) -> Floats:
    """Below the density of arctan(t / sqrt(freedom)), from an angle of at least 0 to a right one, up to the
    same factor for all angles: cos(angle)^(freedom - 1), by Gauss and Legendre."""
    half = (np.pi / 2 - angle) / 2
    angles = angle[:, None] + half[:, None] * (1 + _NODES)
    return half * (np.cos(angles) ** (freedom[:, None] - 1) @ _WEIGHTS)


# How much figures of two sessions differ although nothing was changed; docs/benchmarks.md says how we know.
#
# A row's floor is `relative` of its own time and `share` of all the kernel's warp time: noise that moves a
# few per cent of the kernel's time from one line to the next can double a short one.


class Floor(NamedTuple):
    """Both as parts, 0 to 1. why: what noise it is, for notes."""

    relative: float
    share: float
    why: str

    @property
    def text(self) -> str:
        """ "3 % of a row's time plus 1 % of all warps' time"."""
        return f"{100 * self.relative:g} % of a row's time plus {100 * self.share:g} % of all warps' time"


NO_FLOOR: Final = Floor(0.0, 0.0, "emulated cycles have no noise")

_SAME_BINARY: Final = Floor(0.03, 0.005, "it is one binary in two sessions")
_LAYOUT: Final = Floor(0.04, 0.01, "two binaries have their code at different places")
_ONE_LAUNCH: Final = Floor(0.10, 0.02, "a side has only one launch")


def floor_of(*, emulated: bool, same_build: bool, single: bool) -> Floor:
    """same_build: whether both ran one binary; single: whether either side has one launch only."""
    if emulated:
        return NO_FLOOR
    floor = _SAME_BINARY if same_build else _LAYOUT
    return max(floor, _ONE_LAUNCH) if single else floor
