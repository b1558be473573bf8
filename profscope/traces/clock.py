"""A straight line from cycles to nanoseconds for each warp, so that a trace need not store both.

The line is a prediction, not a measurement: the file keeps what the line misses, and is exact whatever its
quality. Everything is int64 and wraps on overflow, alike when writing and when reading.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clock", "fit_clock"]

Ints = NDArray[np.int64]
ONE = 1 << 32
"""The line's slope and offset are fixed-point numbers with 32 bits after the point."""


@dataclass(frozen=True)
class Clock:
    """ns = ns + (fraction + (cycle - the run's first start_cycle) * rate) / 2**32, rounded down.

    lengths      rows in each run (the spans of one warp), shape (runs,)
    start_cycle  of every row, shape (rows,)
    ns, fraction, rate  the line of each run, shape (runs,)
    """

    lengths: Ints
    start_cycle: Ints
    ns: Ints
    fraction: Ints
    rate: Ints

    def at(self, cycle: Ints) -> Ints:
        """The predicted ns of one cycle per row, shape (rows,)."""
        first = np.cumsum(self.lengths) - self.lengths
        since: Ints = cycle - np.repeat(self.start_cycle[first], self.lengths)
        since *= np.repeat(self.rate, self.lengths)
        since += np.repeat(self.fraction, self.lengths)
        since >>= 32
        since += np.repeat(self.ns, self.lengths)
        return since


def fit_clock(lengths: Ints, column: dict[str, Ints]) -> Clock:
    """Lines for a table's runs; `column` holds launch and the starts and durations, in cycles and ns.

    One slope a launch, from the total of its warps' first spans, is exact for times that came from one fitted
    clock; where it misses, each run gets its own.
    """
    first = np.cumsum(lengths) - lengths
    ns = column["start_ns"][first]
    cycles, nanoseconds = column["duration_cycles"][first], column["duration_ns"][first]
    launch, position = np.unique(column["launch"][first], return_inverse=True)
    total_cycles = np.bincount(position, cycles, len(launch))
    total_ns = np.bincount(position, nanoseconds, len(launch))
    common = _line(lengths, column, ns, _slope(total_ns, total_cycles)[position])
    misses = _misses(common, column)
    if misses * 20 <= len(column["start_ns"]):
        return common
    own = _line(lengths, column, ns, _slope(nanoseconds, cycles))
    return own if _misses(own, column) < misses else common


def _slope(nanoseconds: NDArray[np.generic], cycles: NDArray[np.generic]) -> Ints:
    ratio = np.asarray(nanoseconds, np.float64) / np.maximum(np.asarray(cycles, np.float64), 1)
    return np.clip(np.rint(ratio * ONE), 0, 1 << 40).astype(np.int64)


def _line(lengths: Ints, column: dict[str, Ints], ns: Ints, rate: Ints) -> Clock:
    """The line of that slope through the middle of what each run's rounded-down times allow."""
    low = np.full(len(lengths), np.iinfo(np.int64).min)
    high = np.full(len(lengths), np.iinfo(np.int64).max)
    first = np.cumsum(lengths) - lengths
    end_cycle = column["start_cycle"] + column["duration_cycles"]
    end_ns = column["start_ns"] + column["duration_ns"]
    for cycle, seen in ((column["start_cycle"], column["start_ns"]), (end_cycle, end_ns)):
        since = (cycle - np.repeat(column["start_cycle"][first], lengths)) * np.repeat(rate, lengths)
        missing = ((seen - np.repeat(ns, lengths)) << 32) - since
        if len(first):
            low = np.maximum(low, np.maximum.reduceat(missing, first))
            high = np.minimum(high, np.minimum.reduceat(missing, first) + ONE - 1)
    middle = (low >> 1) + (high >> 1)
    # A number of few bits packs better than one of many: drop the low bits where the range allows.
    coarse = middle >> 28 << 28
    return Clock(
        lengths, column["start_cycle"], ns, np.where((low <= coarse) & (low <= high), coarse, middle), rate
    )


def _misses(clock: Clock, column: dict[str, Ints]) -> int:
    return int(np.count_nonzero(clock.at(column["start_cycle"]) != column["start_ns"]))
