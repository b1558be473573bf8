"""How far the totals of a launch may be off where only some of its CTAs recorded.

Two things are said, since neither stands for the other. How the recorded CTAs differ gives the standard error
of an estimate from them. It knows nothing of CTAs that none of them is like: one CTA in a thousand may take
longer than all others together, and be left out. How many such CTAs there may be follows from how many were
recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from instrument_passes.selection import FEWEST
from profscope.decoding.bundles import TimedBundle

__all__ = ["how_far_off", "most_unseen"]

_MISSED: Final = 0.05  # the chance to see none, at which something may still be there
_LEAST_SHOWN: Final = 0.001


class _Sample(NamedTuple):
    """Of the launches of one grid. recorded: CTAs of a launch, of so many in the grid. variation: the
    standard deviation of their times over the mean, which divides by as many as there are."""

    recorded: float
    grid: float
    variation: float


def how_far_off(launches: Sequence[TimedBundle]) -> str:
    """Of one kernel's launches, by those of which it is worst; "" where no CTA of any came to its end."""
    samples = _samples(launches)
    if not samples:
        return ""
    fewest = min(sample.recorded for sample in samples)
    if fewest < FEWEST:
        recorded = "one CTA of a launch is" if fewest <= 1 else f"{fewest:.0f} CTAs of a launch are"
        return f"{recorded} too few to say how far its totals may be off"
    error = max(map(_standard_error, samples))
    unseen = max(most_unseen(round(sample.recorded), round(sample.grid)) / sample.grid for sample in samples)
    shown = f"of {error:.1%}" if error >= _LEAST_SHOWN else f"below {_LEAST_SHOWN:.1%}"
    return (
        f"by how these differ, a launch's totals have a standard error {shown}; up to {unseen:.1%} of its "
        "CTAs may be unlike all of these (95% confidence), and longer"
    )


def most_unseen(recorded: int, grid: int) -> int:
    """The most CTAs of a grid of so many that may all have been left out, with 95 % confidence.

    Each one is recorded with the chance recorded / grid, so k of them are missed with at most the chance to
    miss one, to the power of k; that is 5 % here (J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong,
    is everything all right?", JAMA 249, 1983). Of CTAs drawn without replacement, as here, fewer are missed.
    """
    if recorded >= grid:
        return 0
    return min(grid - recorded, math.floor(math.log(_MISSED) / math.log1p(-recorded / grid)))


def _standard_error(sample: _Sample) -> float:
    """Of what CTAs drawn at random say of the time of all, relative to it: variation * sqrt((1 - sampled) /
    recorded) (Cochran, Sampling Techniques, 1977, equation 2.20, whose variation divides by one less than
    there are)."""
    return sample.variation * math.sqrt((1 - sample.recorded / sample.grid) / (sample.recorded - 1))


def _samples(launches: Sequence[TimedBundle]) -> list[_Sample]:
    """Of launches that left CTAs out."""
    samples = []
    for bundle in launches:
        headers = bundle.decoded.headers
        cycles = (headers["end_clock"] - headers["start_clock"])[headers["end_clock"] != 0].astype(np.float64)
        if len(cycles):
            spread = float(np.std(cycles)) / max(1.0, float(np.mean(cycles)))
            samples.append(_Sample(len(headers) / len(bundle), bundle.grid_ctas / len(bundle), spread))
    return [sample for sample in samples if 0 < sample.recorded < sample.grid]
