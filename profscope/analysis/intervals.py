"""Times that intervals cover."""

from __future__ import annotations

import numpy as np

from profscope.analysis.span_rows import Ints

__all__ = ["covered", "united"]


def covered(begin: Ints, end: Ints) -> float:
    """The length of the union of intervals, in their own unit."""
    begin, end = united(begin, end)
    return float((end - begin).sum())


def united(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of intervals as few that do not touch, in order; those without a length are none."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(begin), np.bool_)
    opens[1:] = begin[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    starts, ends = begin[first], reach[np.append(first[1:], len(begin)) - 1]
    long = ends > starts
    return starts[long], ends[long]
