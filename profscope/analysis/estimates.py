"""Errors of figures: counted shares, distances of two counts, and paired times.

The signed-rank interval is four lines of numpy; scipy has the test without the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from profscope.analysis.spans.rows import Floats, Ints  # which imports pandas: sessions open without

__all__ = [
    "FEWEST_SAMPLES",
    "LAYOUT_NOISE",
    "Ratio",
    "expected_distance",
    "ratio_of",
    "shares_between",
    "variation_distance",
]

FEWEST_SAMPLES = 200
"""Of a kernel; with fewer nothing is ranked. The interval of a share of a half is then 14 points wide."""

_Z = 1.959963984540054  # 95 % of a normal distribution are within so many standard deviations


def shares_between(counts: Ints, total: Ints | int) -> tuple[Floats, Floats]:
    """The least and the greatest share of each count of `total` that it may stand for, with 95 % confidence.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927). float64 of the shape of `counts`; totals must be above 0.
    """
    share = counts / total
    spread = _Z**2 / total
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * np.sqrt(share * (1 - share) / total + spread / total / 4)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def variation_distance(first: NDArray[np.number], second: NDArray[np.number]) -> float:
    """The total variation distance of two distributions, given by weights: 0 alike, 1 with nothing in
    common. It is the part of one that would have to move for the other; each sum must be above 0."""
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def expected_distance(shares: Floats, first: int, second: int | None = None) -> float:
    """The expected distance of two samples of one distribution, of so many draws each.

    shares: of the distribution; they add up to 1. second: None if the second is the distribution itself.

    The difference of the two frequencies of a bin of share p has the variance p (1 - p) (1/n + 1/m), and is
    nearly normal, so its size is sqrt(2/pi) standard deviations on average (C. R. Blyth, "Expected absolute
    error of the usual estimator of the binomial parameter", The American Statistician 34, 1980). For a bin
    with hardly any draws it is less: at most 2 p, the mean of the two frequencies' sum, or 2 p (1 - p) if the
    second is the distribution itself. The distance is half the sum over bins. Draws that depend on each
    other, as those of one SM at one time do, are farther apart.
    """
    spread = shares * (1 - shares)
    normal = np.sqrt(2 / np.pi * spread * (1 / first + (1 / second if second else 0.0)))
    most = 2 * shares if second else 2 * spread
    return float(np.minimum(normal, most).sum() / 2)


# Bare launches and the recorded ones right behind them: the ratio of their times, and how well it is known.
#
# The two of a pair find the GPU alike (its clock, its caches, what else runs), so that their ratio is known
# far better than the ratio of medians over all launches.


LAYOUT_NOISE: Final = 0.03
"""By so much of its time a kernel gets faster or slower where the assembler puts its code elsewhere, and
nothing else changes: the instrumented attention took 0.972 of the bare one's time on an H100 and 0.985 on an
H200 (docs/verdict.md). No pair of launches shows it, since the two binaries stay where they are."""


class Ratio(NamedTuple):
    """Recorded over bare time, and its 95 % interval."""

    ratio: float
    low: float
    high: float


def ratio_of(bare_ns: Sequence[float], recorded_ns: Sequence[float]) -> Ratio:
    """The ratio of one or more pairs; a pair has the same index in both.

    The Hodges-Lehmann estimate, the median of the means of any two of the logarithms, and the interval of
    Wilcoxon's signed-rank test by its normal approximation; of fewer than six pairs the interval holds all of
    them, which is less than 95 %.
    """
    logs = np.log(np.asarray(recorded_ns) / np.asarray(bare_ns))
    count = len(logs)
    first, second = np.triu_indices(count)
    means: Floats = np.sort((logs[first] + logs[second]) / 2)
    off = 0
    if count >= 6:
        deviation = np.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        off = max(0, int(np.floor(len(means) / 2 - 1.96 * deviation)))
    return Ratio(*np.exp([np.median(means), means[off], means[-1 - off]]).tolist())
