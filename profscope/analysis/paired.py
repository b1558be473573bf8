"""Bare launches and the recorded ones right behind them: the ratio of their times, and how well it is known.

The two of a pair find the GPU alike (its clock, its caches, what else runs), so that their ratio is known far
better than the ratio of medians over all launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from profscope.analysis.span_rows import Floats

__all__ = ["LAYOUT_NOISE", "Ratio", "ratio_of"]

LAYOUT_NOISE: Final = 0.03
"""By so much of its time a kernel gets faster or slower where the assembler puts its code elsewhere, and
nothing else changes: the instrumented attention took 0.972 of the bare one's time on an H100 and 0.985 on an
H200 (docs/verdict.md). No pair of launches shows it, since the two binaries stay where they are."""


class Ratio(NamedTuple):
    """Recorded over bare time, and between what it lies with 95 % confidence."""

    ratio: float
    low: float
    high: float


def ratio_of(bare_ns: Sequence[float], recorded_ns: Sequence[float]) -> Ratio:
    """Of one or more pairs, which have the same place in both.

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
