"""The partitions of a warp-specialised kernel: groups of warps that run programs of their own."""

from __future__ import annotations

import numpy as np

from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.span_rows import Ints

__all__ = ["partition_of_warp", "partitions_of"]


def partition_of_warp(judged: KernelAnalysis) -> Ints:
    """By warp (of `Spans.warp`): the site of the span around all it did, which differs between partitions."""
    spans = judged.spans
    roots = np.flatnonzero(spans.parent < 0)
    first = roots[np.unique(spans.warp[roots], return_index=True)[1]]
    return spans.site[first]


def partitions_of(judged: KernelAnalysis) -> int:
    """How many programs the warps of a CTA run."""
    return len(np.unique(partition_of_warp(judged)))
