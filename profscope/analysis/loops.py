"""Which loop an op is in."""

from __future__ import annotations

import numpy as np

from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.span_rows import Ints

__all__ = ["loop_of"]


def loop_of(judged: KernelAnalysis) -> Ints:
    """By site: that of the innermost loop around it, -1 where there is none."""
    spans, kinds = judged.spans, judged.sites["kind"].to_numpy()
    first = np.full(len(judged.sites), -1)
    # A copy of a pipelined loop starts in front of it as well: one in a step of the loop tells more.
    for rows in (np.arange(len(spans)), np.flatnonzero(spans.iteration >= 0)):
        first[spans.site[rows[::-1]]] = rows[::-1]  # the last one put there stays
    result = np.full(len(judged.sites), -1)
    for site, row in enumerate(first):
        at = spans.parent[row] if row >= 0 else -1
        while at >= 0 and kinds[spans.site[at]] != "loop":
            at = spans.parent[at]
        result[site] = spans.site[at] if at >= 0 else -1
    return result
