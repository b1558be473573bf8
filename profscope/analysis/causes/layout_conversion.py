"""layout-conversion: values go through shared memory to change their layout."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Layout conversions take time of their own.

    Gain: their own time over that of all warps, those behind a load left out: they wait for its data.
    Confidence: high; medium where warps leave them together, since some of it is then waiting for each
    other.
    """
    spans, sites = judged.spans, judged.sites
    rows = judged.of_class("layout")
    if not rows.any():
        if not judged.heavy and not (sites["cls"] == "local").any():
            yield NotMeasured(
                "layout-conversion, bank-conflict: such ops were not recorded (instrument='heavy' does)"
            )
        return
    behind = np.zeros(len(spans), np.bool_)
    behind[1:] = judged.of_class("load")[:-1]
    lost = np.where(rows & ~behind, spans.own, 0)
    cycles = float(lost.sum())
    site = int(np.argmax(judged.total(lost)))
    file, line = judged.at(site)
    yield Finding(
        "layout-conversion",
        file,
        line,
        f"{sites['scope'].iloc[site]}: {judged.share_pct(cycles):.0f} % of warp time changes layouts, "
        f"{cycles / max(1, rows.sum()):.0f} cycles each",
        "store in the layout that the value has (a descriptor store, an epilogue in parts), or order the "
        "axes so that producer and consumer agree",
        judged.share_pct(cycles),
        "medium",
    )
