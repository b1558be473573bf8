"""Bare launches and the recorded ones right behind them: the ratio of their times, and how well it is known.

The two of a pair find the GPU alike (its clock, its caches, what else runs), so that their ratio is known far
better than the ratio of medians over all launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from profscope.analysis.span_rows import Floats

__all__ = ["LAYOUT_NOISE", "Ratio", "layout_noise", "ratio_of"]

LAYOUT_NOISE: Final = 0.03
"""By so much of its time a kernel gets faster or slower where the assembler puts its code elsewhere, and
nothing else changes, where no null build says it of the kernel itself: the instrumented attention took 0.972
of the bare one's time on an H100 and 0.985 on an H200 (docs/verdict.md)."""

_LEAST: Final = 3  # pairs of a null build, to say anything of it
# 97.5 % quantiles of Student's t, by degrees of freedom.
_T: Final = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776}
_T_MORE: Final = 2.571


class Ratio(NamedTuple):
    """Recorded over bare time, and between what it lies with 95 % confidence."""

    ratio: float
    low: float
    high: float


def ratio_of(pair: Mapping[str, Any]) -> Ratio:
    """Of an entry of `pairs` (see `launching.baseline`), which has one or more.

    The Hodges-Lehmann estimate, the median of the means of any two of the logarithms, and the interval of
    Wilcoxon's signed-rank test by its normal approximation; of fewer than six pairs the interval holds all of
    them, which is less than 95 %.
    """
    logs = np.log(np.asarray(pair["instrumented_ns"]) / np.asarray(pair["bare_ns"]))
    count = len(logs)
    first, second = np.triu_indices(count)
    means: Floats = np.sort((logs[first] + logs[second]) / 2)
    off = 0
    if count >= 6:
        deviation = np.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        off = max(0, int(np.floor(len(means) / 2 - 1.96 * deviation)))
    return Ratio(*np.exp([np.median(means), means[off], means[-1 - off]]).tolist())


def layout_noise(pairs: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    """How far two layouts of a kernel's code lie apart with 95 % confidence, as a part of its time; and from
    how many null builds that is known. NaN from fewer than two.

    pairs: those of one variant and of one kind of records, an entry for each shift. The deviation of their
    ratios, the bare kernel's among them, is that of one layout; two are compared, the bare one and the
    recorded one. What the launches vary by is in it, much of it where a layout has a few pairs. So it is at
    most what is left of it without that, or LAYOUT_NOISE where that is more.
    """
    enough = [each for each in pairs if len(each["bare_ns"]) >= _LEAST]
    nulls = sum(each["shift"] != 0 for each in enough)
    if nulls < 2:
        return float("nan"), nulls
    logs = [np.log(ratio_of(each).ratio) for each in enough]
    quantile = _T.get(len(logs) - 1, _T_MORE)
    seen = float(np.var(logs, ddof=1))
    of_launches = float(np.mean([_variance_of_ratio(each) for each in enough]))
    with_launches, without = (
        float(np.expm1(quantile * np.sqrt(2 * variance))) for variance in (seen, max(0.0, seen - of_launches))
    )
    return min(with_launches, max(without, LAYOUT_NOISE)), nulls


def _variance_of_ratio(pair: Mapping[str, Any]) -> float:
    """Of the logarithm of a pair's ratio, by what its launches vary by."""
    logs = np.log(np.asarray(pair["instrumented_ns"]) / np.asarray(pair["bare_ns"]))
    return float(np.var(logs, ddof=1)) / len(logs)
