"""Where all warps of a CTA wait for each other: barriers, and ops that have one inside.

Warps of a warp-specialised kernel run programs of their own, its partitions, and meet within these.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, op_info
from profscope.analysis.spans.rows import Ints

__all__ = ["may_meet", "meetings", "meetings_of", "partition_of_warp", "partitions_of"]

_CLASSES: Final = ("reduce", "layout")

# Ends of warps that met lie closer together than their begins: by at least this.
_ALIGNED: Final = 0.5


def may_meet(judged: KernelAnalysis) -> NDArray[np.bool_]:
    """By site: whether warps may wait for each other there: barriers that complete, reductions, layouts."""
    sites = zip(judged.sites["scope"].tolist(), judged.sites["cls"].tolist(), strict=True)
    return np.array(
        [cls in _CLASSES or (cls == "barrier" and _completes(scope)) for scope, cls in sites], np.bool_
    )


def _completes(scope: str) -> bool:
    info = op_info(scope)
    return info is not None and info.completes


def meetings(judged: KernelAnalysis, first: int = 0, last: int | None = None) -> pd.DataFrame:
    """One row per span that may be part of a meeting, of the spans `first` to `last`.

    span, site, cta, warp, begin, end; number, the same for what met; came, how many warps did; earliest,
    latest, mean, of their begins; ended, the last end; aligned, whether they left closer together than they
    came.
    """
    spans = judged.spans
    part = slice(first, last)
    here = np.flatnonzero(may_meet(judged)[spans.site[part]]) + first
    table = pd.DataFrame(
        {
            "span": here,
            "site": spans.site[here],
            "cta": spans.cta[here],
            "warp": spans.warp[here],
            "begin": spans.start[here],
            "end": spans.end[here],
        }
    )
    time = table.groupby(["warp", "site"]).cumcount()
    table["number"] = table.groupby([table["site"], table["cta"], time], sort=False).ngroup()
    by_key = table.groupby("number", sort=False)
    begins, ends = by_key["begin"], by_key["end"]
    table = table.assign(
        came=begins.transform("size"),
        earliest=begins.transform("min"),
        latest=begins.transform("max"),
        mean=begins.transform("mean"),
        ended=ends.transform("max"),
    )
    spread = table["latest"] - table["earliest"]
    return table.assign(aligned=table["ended"] - ends.transform("min") <= _ALIGNED * spread)


def meetings_of(judged: KernelAnalysis, first: int, last: int) -> dict[int, int]:
    """By span of one CTA that is part of a meeting of all its warps, the meeting's number, from 0."""
    if not may_meet(judged).any():
        return {}
    table = meetings(judged, first, last)
    warps = len(np.unique(judged.spans.warp[first:last]))
    met = table[(table["came"] == warps) & table["aligned"] & (warps > 1)]
    number, _ = pd.factorize(met["number"])
    return dict(zip(met["span"].tolist(), number.tolist(), strict=True))


def partition_of_warp(judged: KernelAnalysis) -> Ints:
    """By warp (of `Spans.warp`): the site of the span around all it did, which differs between partitions."""
    spans = judged.spans
    roots = np.flatnonzero(spans.parent < 0)
    first = roots[np.unique(spans.warp[roots], return_index=True)[1]]
    return spans.site[first]


def partitions_of(judged: KernelAnalysis) -> int:
    """How many programs the warps of a CTA run."""
    return len(np.unique(partition_of_warp(judged)))
