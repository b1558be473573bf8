"""Times that intervals cover."""

from __future__ import annotations

import numpy as np

from profscope.analysis.span_rows import Ints

__all__ = ["covered"]


def covered(begin: Ints, end: Ints) -> float:
    """The length of the union of intervals, in their own unit."""
    if not len(begin):
        return 0.0
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    before = np.concatenate([begin[:1], reach[:-1]])
    return float(np.maximum(reach - np.maximum(begin, before), 0).sum())
