"""load-imbalance: some CTAs have more to do than others, and the launch waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.launch_shape import ALIKE, UNLIKE

__all__ = ["Counts", "causes", "varying_site"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """The time of CTAs differs, and the launch ends with the longest.

    Gain: what the launch takes beyond the waves of its grid, each as long as the mean CTA (`imbalance_pct` of
    `shape_of`): what an even distribution would save. The line is that of the innermost loop, or else the
    scope, whose time varies with that of its CTA. Confidence: high where the CTA with most iterations of that
    loop, or times that the scope ran, had 5 % more than the mean; medium where that was not recorded, and the
    standard deviation of their time is at least 35 % of its mean. CTAs that do as much, or one step in thirty
    more, in times less unlike are no finding.
    """
    shape = judged.shape
    if shape is None or shape.variation < ALIKE:
        return
    site, share, counts = varying_site(judged)
    does_more = counts.most * (1 - ALIKE) > counts.mean
    if not does_more and shape.variation < UNLIKE:
        return
    file, line = judged.at(site) if site >= 0 else judged.place
    what = (
        f"; {100 * share:.0f} % of the differences arise in {judged.sites['scope'].iloc[site]}"
        if site >= 0
        else ""
    )
    times = f"{shape.mean_ns / 1e3:.1f} us, the longest {shape.longest_ns / 1e3:.1f}"
    if judged.emulated:
        times = f"{shape.mean_cycles:,.0f} cycles, the longest {shape.longest_cycles:,.0f}"
    differ = counts.least != counts.most
    often = f", which runs {counts.least:,} to {counts.most:,} steps a CTA" if differ else ""
    yield Finding(
        "load-imbalance",
        file,
        line,
        f"the mean CTA takes {times} (standard deviation {100 * shape.variation:.0f} % of the mean)"
        f"{what}{often}",
        "spread the work evenly: sort or interleave long and short tiles, or let programs fetch the next "
        "tile from a counter",
        shape.imbalance_pct,
        "high" if does_more else "medium",
    )


class Counts(NamedTuple):
    """How often something ran in the CTA where it ran least and most, and in the mean one, of the launch
    whose CTAs are most unlike."""

    least: int
    most: int
    mean: float


def varying_site(judged: KernelAnalysis) -> tuple[int, float, Counts]:
    """The innermost site whose time varies with that of its CTA. CTAs are compared with those of their
    launch: others may have more to do.

    Returns its row (-1: none), its part of the differences, 0 to 1, and how often what is in it, or for
    want of that it itself, ran.
    """
    spans, ctas = judged.spans, len(judged.ctas)
    time = np.bincount(spans.cta, spans.duration * (spans.parent < 0), ctas)
    seen = np.bincount(spans.cta, minlength=ctas) > 0
    launch, number = _launches(judged)
    mean = np.bincount(launch, time * seen, number) / np.maximum(1, np.bincount(launch, seen, number))
    away = (time - mean[launch]) * seen
    spread = float((away * away).sum()) or 1.0
    part = judged.total(spans.duration * away[spans.cta]) / spread
    loops = judged.sites["kind"].isin(("loop", "scope", "op")).to_numpy()
    inner = np.flatnonzero(loops & (part >= 0.5))
    if not len(inner):
        return -1, 0.0, Counts(0, 0, 0.0)
    depth = np.full(len(judged.sites), 0)
    np.maximum.at(depth, spans.site, _depths(spans.parent))
    site = int(max(inner, key=lambda each: (depth[each], part[each])))
    return site, min(1.0, float(part[site])), _times(judged, site, seen)


def _depths(parent: np.ndarray) -> np.ndarray:
    depth = np.zeros(len(parent), np.int64)
    for _ in range(64):
        following = np.where(parent >= 0, depth[parent] + 1, 0)
        if (following == depth).all():
            break
        depth = following
    return depth


def _times(judged: KernelAnalysis, site: int, seen: np.ndarray) -> Counts:
    spans, ctas = judged.spans, len(judged.ctas)
    inside = spans.site[spans.parent] == site
    inside &= spans.parent >= 0
    rows = inside if inside.any() else spans.site == site
    of_warps = np.bincount(spans.warp[rows], minlength=int(spans.warp.max()) + 1)
    times = np.zeros(ctas, np.int64)  # of the warp of each CTA that ran it most often
    np.maximum.at(times, spans.cta, of_warps[spans.warp])
    launch, _ = _launches(judged)
    order = np.flatnonzero(seen)[np.argsort(launch[seen], kind="stable")]
    first = np.flatnonzero(np.diff(launch[order], prepend=-1))
    times, counts = times[order], np.diff(first, append=len(order))
    least, most = (of.reduceat(times, first) for of in (np.minimum, np.maximum))
    mean = np.add.reduceat(times, first) / counts
    unlike = int(np.argmax(most / np.maximum(1, mean)))
    return Counts(int(least[unlike]), int(most[unlike]), float(mean[unlike]))


def _launches(judged: KernelAnalysis) -> tuple[np.ndarray, int]:
    """For each CTA the number of its launch, from 0 on, and how many there are."""
    launches, number = np.unique(judged.ctas["launch"].to_numpy(), return_inverse=True)
    return number, len(launches)
