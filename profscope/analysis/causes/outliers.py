"""outliers: a few steps or CTAs take far longer than the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["causes"]

_LONG: Final = 2.0  # times the median
_FEW: Final = 0.10  # of the steps, at most
_LEAST: Final = 20  # steps of a loop that are enough to speak of


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Some steps of a loop take more than twice the median step, and they are at most a tenth of all.

    Gain: what these steps take beyond the median, over the time of all warps. Confidence: medium for at
    least 20 such steps, low for fewer. The evidence says whether they are the first of their loops.
    """
    spans, sites = judged.spans, judged.sites
    rows = np.flatnonzero(judged.of_kind("iteration"))
    if not len(rows):
        if (sites["kind"] == "loop").any():
            yield NotMeasured(
                "outliers, bimodal-spans of steps: iterations were not recorded (instrument='heavy' does)"
            )
        return
    table = pd.DataFrame(
        {"site": spans.site[rows], "took": spans.duration[rows], "step": spans.iteration[rows]}
    )
    for _, each in table.groupby("site"):
        site = int(each["site"].iloc[0])
        median = float(each["took"].median())
        long = each[each["took"] > _LONG * max(1.0, median)]
        if len(each) < _LEAST or long.empty or len(long) > _FEW * len(each):
            continue
        first = float((long["step"] == 0).mean())
        file, line = judged.at(site)
        excess = float((long["took"] - median).sum())
        yield Finding(
            "outliers",
            file,
            line,
            f"{len(long):,} of {len(each):,} steps of the loop take more than twice the median of "
            f"{median:,.0f} cycles, {long['took'].mean():,.0f} on average; {100 * first:.0f} % of them are "
            "first steps",
            "first steps wait for cold data: prefetch, or more stages; others: look at these rows of "
            "prof.df, by SM and CTA, for data that is special there",
            judged.share_pct(excess),
            "medium" if len(long) >= 20 else "low",
        )
