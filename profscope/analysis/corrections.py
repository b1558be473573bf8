"""Durations without what the clock itself took: the columns `corrected_cycles` and `corrected_ns`.

Between two clock reads of a warp there lies at least the time that one read takes. A span with spans inside
is cut into many such intervals, and is too long by that time for each of them. Neighbours share a read, as
where one iteration ends and the next begins, so reads are counted, not spans.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from instrument_passes.span_columns import CORRECTED_COLUMNS
from profscope.analysis.clock_cost import record_cost
from profscope.analysis.span_rows import Floats

__all__ = ["CORRECTED", "with_corrected"]

CORRECTED = tuple(CORRECTED_COLUMNS)


def with_corrected(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A span table with the columns CORRECTED behind its own, Int64; its other columns are not copied.

    corrected_cycles: duration_cycles less the time of the clock reads in it, never below 0. The self times
    that follow from it (`self_times`) are not below 0 either, and add up as those of durations do. An async
    span loses one read. corrected_ns: duration_ns, shortened by the same part.

    Missing where the cost of a read is not known (`metadata["clock"]`): in older profiles, in other tools'.
    What stores of records take is not in it: it depends on what the warp waited for just then.
    """
    cost = record_cost(metadata)
    duration, ns = (df[f"duration_{unit}"].to_numpy() for unit in ("cycles", "ns"))
    if cost is None:
        missing = np.ones(len(df), np.bool_)
        columns = [pd.arrays.IntegerArray(np.zeros(len(df), np.int64), missing.copy()) for _ in CORRECTED]
    else:
        cycles = duration - _lost(df, cost.read)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.where(duration > 0, cycles / duration, 1.0)
        columns = [_known(cycles), _known(ns * kept)]
    return df.assign(**dict(zip(CORRECTED, columns, strict=True)))


def _known(values: Floats) -> Any:
    return pd.arrays.IntegerArray(np.rint(values).astype(np.int64), np.zeros(len(values), np.bool_))


def _lost(df: pd.DataFrame, read: float) -> Floats:
    """By span the cycles that clock reads took of it, those in the spans inside included.

    Of its own time a span loses one read for each stretch between two reads: before its first child, between
    any two and behind the last, but for those where neighbours share a read.
    """
    start, parent, depth = (df[name].to_numpy() for name in ("start_cycle", "parent", "depth"))
    duration = df["duration_cycles"].to_numpy()
    asynchronous = (df["kind"] == "async").to_numpy()
    lost: Floats = np.minimum(duration, read)  # of a span with nothing inside
    deepest = int(depth.max(initial=0))
    for level in range(deepest, 0, -1):
        rows = np.flatnonzero((depth == level) & ~asynchronous)
        if not len(rows):
            continue
        # The children of one span stand side by side among those of their depth, in order of time.
        above, begin, took = parent[rows], start[rows], duration[rows]
        end = begin + took
        opens = np.ones(len(rows), np.bool_)
        np.not_equal(above[1:], above[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(rows)) - 1
        around = above[first]
        stretch = np.empty(len(rows), np.bool_)
        stretch[1:] = begin[1:] > end[:-1]
        stretch[first] = begin[first] > start[around]
        stretches = np.add.reduceat(stretch.astype(np.int64), first)
        stretches += end[last] < start[around] + duration[around]
        own = duration[around] - np.add.reduceat(took, first)
        lost[around] = np.minimum(stretches * read, own) + np.add.reduceat(lost[rows], first)
    return lost
