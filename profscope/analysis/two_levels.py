"""Do numbers fall into two clear groups, and by what?"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.span_rows import Floats, Ints

__all__ = ["Levels", "dip_of", "error_left_out", "levels_of"]

# Of so many order statistics at most the dip is taken, so that it takes milliseconds.
_MOST: Final = 2000
# n, and what sqrt(n) times the dip of n numbers from a uniform distribution, whose dip is the largest among
# those with one peak (Hartigan and Hartigan), exceeds in one of 1,000 samples: simulated, as their table
# was, with 50,000 samples of each size.
_SIZES: Final = (20, 30, 50, 100, 200)
_CRITICAL: Final = (0.615, 0.633, 0.655, 0.688, 0.706)
_LEAST: Final = 20
_SMALLER: Final = 0.10  # of the numbers; fewer are outliers
_APART: Final = 1.5  # the higher level over the lower one
_VALLEY: Final = 0.10  # of the numbers of the smaller group

_Bools = NDArray[np.bool_]


class Levels(NamedTuple):
    """Two groups of numbers: their means, and for each number whether it is of the higher one."""

    low: float
    high: float
    is_high: _Bools


def levels_of(values: NDArray[Any], independent: float) -> Levels | None:
    """The two groups that values fall into, None where there are no two clear ones.

    The groups are those with least variance inside (Otsu, "A threshold selection method from gray-level
    histograms", IEEE Transactions on Systems, Man and Cybernetics 9, 1979). They are two levels if the
    smaller has a tenth of the values, the higher mean is 1.5 times the lower, in the middle third of the way
    between the means lie at most 10 % as many values as in the smaller group, and the dip of the values
    (Hartigan and Hartigan, "The dip test of unimodality", Annals of Statistics 13, 1985) is one that a
    distribution with one peak has in less than one of 1,000 samples of so many.

    independent: how many of the values say something of their own, at most their number; warps that run
    together do not. Below 20 there is nothing to say.
    """
    count = len(values)
    if count < _LEAST or independent < _LEAST:
        return None
    ordered = np.sort(_narrow(values)).astype(np.float64)
    if _are_near(ordered):
        return None
    below = np.arange(1, count)
    sums = np.cumsum(ordered)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (count - below)
    between = below * (count - below) * (high - low) ** 2
    cut = int(np.argmax(between))
    smaller = min(cut + 1, count - cut - 1)
    if smaller < _SMALLER * count or high[cut] < _APART * max(low[cut], 1.0):
        return None
    third = (high[cut] - low[cut]) / 3
    first, last = np.searchsorted(ordered, (low[cut] + third, high[cut] - third))
    if last - first > _VALLEY * smaller:
        return None
    few = ordered if count <= _MOST else ordered[np.linspace(0, count - 1, _MOST).astype(np.int64)]
    size = min(len(few), independent)
    if dip_of(few) * np.sqrt(size) < np.interp(size, _SIZES, _CRITICAL):
        return None
    return Levels(float(low[cut]), float(high[cut]), values > ordered[cut])


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """In 32 bits, where they fit: these are sorted twice as fast."""
    if values.dtype != np.int64 or values.min() < 0 or values.max() > np.iinfo(np.uint32).max:
        return values
    return values.astype(np.uint32)


def _are_near(ordered: Floats) -> bool:
    """Whether no two groups of ordered numbers, each of a tenth of them at least, can be `_APART`: of most
    spans none are, and this is soon told."""
    tenth = int(np.ceil(_SMALLER * len(ordered)))
    low, high = ordered[:tenth].mean(), ordered[-tenth:].mean()
    return bool(high < 0.999 * _APART * max(low, 1.0))  # well above what sums are rounded by


def dip_of(ordered: Floats) -> float:
    """The greatest distance of the distribution of ordered numbers from the nearest one with one peak.

    By the algorithm of P. M. Hartigan, "Computation of the dip statistic to test for unimodality", Applied
    Statistics 34, 1985: the convex minorant and the concave majorant of the distribution between two points,
    which close in on the peak until the two lie nearer to each other than what was found outside.
    """
    at, counts = np.unique(ordered, return_counts=True)
    upper = np.cumsum(counts) / len(ordered)
    lower = upper - counts / len(ordered)
    left, right, dip = 0, len(at) - 1, 1.0 / len(ordered)
    while right > left:
        part = slice(left, right + 1)
        x = at[part]
        convex, concave = _hull(x, lower[part], 1.0), _hull(x, upper[part], -1.0)
        minorant = np.interp(x, x[convex], lower[part][convex])
        majorant = np.interp(x, x[concave], upper[part][concave])
        apart = majorant - minorant
        by_convex, by_concave = convex[np.argmax(apart[convex])], concave[np.argmax(apart[concave])]
        if apart[by_concave] > apart[by_convex]:
            end = int(by_concave)
            begin = int(convex[convex <= end][-1])
        else:
            begin = int(by_convex)
            end = int(concave[concave >= begin][0])
        if max(apart[by_convex], apart[by_concave]) <= dip:
            break
        # At the ends of what is left the peak may stand, however many numbers are the same there.
        before = np.max(upper[part][:begin] - minorant[:begin], initial=0.0)
        behind = np.max(majorant[end + 1 :] - lower[part][end + 1 :], initial=0.0)
        dip = max(dip, float(before), float(behind))
        if (begin, end) == (0, len(x) - 1):
            break
        left, right = left + begin, left + end
    return dip / 2


def _hull(x: Floats, y: Floats, sign: float) -> Ints:
    """The points of the greatest convex function below (sign 1), or least concave one above (sign -1)."""
    kept: list[int] = []
    for point in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            turn = (x[b] - x[a]) * (y[point] - y[a]) - (y[b] - y[a]) * (x[point] - x[a])
            if sign * turn > 0:
                break
            kept.pop()
        kept.append(point)
    return np.array(kept)


def error_left_out(is_high: _Bools, key: NDArray[Any]) -> float:
    """How much better a number's group is known by its key, 0 to 1 (1: always).

    Goodman and Kruskal's lambda ("Measures of association for cross classifications", Journal of the American
    Statistical Association 49, 1954): of the mistakes that are made if each number is taken to be of the
    larger group, the part that is not if it is taken to be of the larger group of its key.
    """
    _, code = np.unique(key, return_inverse=True)
    count, high = np.bincount(code), np.bincount(code, is_high)
    wrong = float(np.minimum(high, count - high).sum())
    without = float(min(is_high.sum(), (~is_high).sum()))
    return 1 - wrong / without if without else 0.0
