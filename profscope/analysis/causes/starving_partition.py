"""starving-partition: a partition of a warp-specialised kernel waits for another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.partitions import partition_of_warp, partitions_of

__all__ = ["causes"]

_LATE: Final = 50  # cycles beyond that, on average: what is less may be the wait itself
_PASSED: Final = 100  # cycles of a wait on a barrier that has arrived, its record included


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """All partitions wait for each other, or the one that works most waits for its producers.

    Of each partition: the time of its waits for other partitions in its loop, less 100 cycles each, over the
    CTA's time. Gain: the share of the partition that waits least, among those with dots, or among all where
    none has dots: the others only wait for it. Waits for dots are its own work. Confidence: high for a
    share of at least a quarter of the partition's time, medium for less. The line is that of the wait, or
    of the partition's dot where the wait has none of its own.
    """
    if partitions_of(judged) < 2:
        return
    spans, sites = judged.spans, judged.sites
    partition = partition_of_warp(judged)[spans.warp]
    others = (sites["cls"] == "wait") & ~sites["scope"].str.startswith("tma store")
    rows = others.to_numpy()[spans.site] & (spans.iteration >= 0) & ~judged.for_dots
    with_dots = np.unique(partition[judged.of_class("mma")])
    working = with_dots if len(with_dots) else np.unique(partition[spans.iteration >= 0])
    if not len(working) or not rows.any():
        return
    lost = np.where(rows, np.maximum(spans.duration - _PASSED, 0), 0)
    ctas = float((judged.ctas["cycles"].to_numpy()[np.unique(spans.cta)]).sum())
    shares = {}
    for each in working:
        warps = len(np.unique(spans.warp[partition == each])) / max(1, len(np.unique(spans.cta)))
        shares[int(each)] = 100 * float(lost[partition == each].sum()) / max(1.0, ctas * warps)
    least = min(shares, key=lambda each: shares[each])
    by_site = judged.total(lost, rows & (partition == least))
    site = int(np.argmax(by_site))
    count = int((rows & (partition == least) & (spans.site == site)).sum())
    if by_site[site] < _LATE * count:
        return
    file, line = _place(judged, site, partition == least)
    names = {each: _name(judged, each) for each in np.unique(partition)}
    busy = ", ".join(f"{names[each]} {100 * _work(judged, partition == each, rows):.0f} %" for each in names)
    yield Finding(
        "starving-partition",
        file,
        line,
        f"{names[least]} waits {shares[least]:.0f} % of the CTA's time at {sites['scope'].iloc[site]}, "
        f"{by_site[site] / max(1, count):.0f} cycles a time; parts of their time in which partitions do "
        f"not wait: {busy}",
        "give the producer more buffers (num_stages) or larger copies, more warps to the partition that "
        "is behind, or move work to the one that waits",
        shares[least],
        "high" if shares[least] >= 25 else "medium",
        also=tuple(sorted({judged.at(int(each))[1] for each in np.flatnonzero(by_site)})),
    )


def _place(judged: KernelAnalysis, wait: int, mine: np.ndarray) -> tuple[str, int]:
    """Where a wait is; the partition's first dot where the compiler left it no place but the kernel's."""
    if judged.at(wait) != judged.place:
        return judged.at(wait)
    dots = judged.spans.site[mine & judged.of_class("mma")]
    return judged.at(int(dots[0])) if len(dots) else judged.place


def _name(judged: KernelAnalysis, site: int) -> str:
    scope = str(judged.sites["scope"].iloc[site])
    return scope.removeprefix(judged.kernel).strip() or "the default partition"


def _work(judged: KernelAnalysis, mine: np.ndarray, waits: np.ndarray) -> float:
    """The part of the time of some warps in which they do not wait."""
    spans = judged.spans
    whole = float(spans.duration[mine & (spans.parent < 0)].sum())
    return 1 - float(spans.duration[mine & waits].sum()) / max(1.0, whole)
