"""prologue: what stands before and behind the loop takes a large part of a CTA."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.quantities import count_text

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Warps are in no loop for long, in a kernel whose loop pipelines copies or has dots.

    Gain: the time of warps before their first loop and behind their last, over the time of all warps,
    divided by the CTAs that an SM runs at once, whose loops may run beside it. Confidence: low. The line is
    that of the op outside of loops with most own time.
    """
    spans, sites = judged.spans, judged.sites
    works = judged.of_class("mma", "async_copy", "wait") & (spans.iteration >= 0)
    if not works.any() or partitions_of(judged) > 1:
        return
    outer = np.flatnonzero(judged.of_kind("loop") & (spans.parent >= 0))
    outer = outer[spans.parent[spans.parent[outer]] < 0]
    if not len(outer):
        return
    outside = judged.warp_cycles - float(spans.duration[outer].sum())
    together = (
        judged.shape.per_sm
        if judged.shape
        else max(1, int(judged.build("instrumented").get("ctas_per_sm") or 1))
    )
    steps = int(spans.iteration.max()) + 1
    plain = (spans.iteration < 0) & judged.of_kind("op")
    own = judged.total(spans.own, plain)
    site = int(np.argmax(own))
    file, line = judged.at(site)
    pct = judged.share_pct(outside)
    yield Finding(
        "prologue",
        file,
        line,
        f"{pct:.0f} % of warp time lies before and behind the loop of {count_text(steps, 'step')}, most of "
        f"it at {sites['scope'].iloc[site]} (line {line}); {count_text(together, 'CTA')} on an SM at once",
        "give each program more steps (a persistent loop over tiles, less split-K), fewer stages where "
        "the loop is short, or let the store of one tile run beside the loads of the next",
        pct / together,
        "low",
    )
