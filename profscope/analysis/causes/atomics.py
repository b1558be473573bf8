"""atomics: warps wait for atomic operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["causes"]

_MOST: Final = 4000  # cycles behind an atomic that are counted as waiting for it, at most


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Atomic operations whose old value is waited for, or that contend for an address.

    Gain: the spans of atomics, with what they have inside, and the time behind each until another op or scope
    begins, or its step of a loop ends, at most 4,000 cycles, over the time of all warps: as if there were
    none.
    Where the next record is that of an atomic again other work may be in between, and only the spans count.
    So the share is nearly the same at every level. Confidence: high where the spans themselves hold most of
    that time, medium where what follows does.
    """
    rows = judged.of_class("atomic")
    if not rows.any():
        return
    spans, sites = judged.spans, judged.sites
    outermost = rows & ~(rows[np.maximum(spans.parent, 0)] & (spans.parent >= 0))
    lost = np.where(
        outermost, spans.duration + np.where(_bounded(judged, rows), spans.gap, 0).clip(0, _MOST), 0
    )
    by_site = judged.total(lost)
    site = int(np.argmax(by_site))
    cycles, count = float(lost.sum()), int(outermost.sum())
    own = float(spans.duration[outermost].sum())
    slow = float(np.percentile(lost[outermost], 95))
    file, line = judged.at(site)
    yield Finding(
        "atomics",
        file,
        line,
        f"{sites['scope'].iloc[site]}: {judged.share_pct(cycles):.0f} % of warp time goes into atomics, "
        f"{cycles / count:,.0f} cycles each, {slow:,.0f} for the slowest 5 %; "
        f"{count / len(judged.ctas):.1f} a CTA, counted by warp",
        "add up in registers or shared memory first and go to memory once a CTA; spread the addresses; do "
        "not use the old value",
        judged.share_pct(cycles),
        "high" if own >= cycles / 2 else "medium",
    )


def _bounded(judged: KernelAnalysis, rows: np.ndarray) -> np.ndarray:
    """By span: whether what comes next in its warp is an op or scope that is no atomic, or a step's end."""
    spans = judged.spans
    bounded = np.zeros(len(spans), np.bool_)
    same = (spans.warp[1:] == spans.warp[:-1]) & (spans.start[1:] == spans.end[:-1] + spans.gap[:-1])
    bounded[:-1] = same & ~rows[1:] & judged.of_kind("op", "scope")[1:]
    return bounded | (judged.of_kind("iteration")[np.maximum(spans.parent, 0)] & (spans.parent >= 0))
