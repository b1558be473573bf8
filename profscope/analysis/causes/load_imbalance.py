"""load-imbalance: some CTAs have more to do than others, and the launch waits for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged
from profscope.analysis.launch_shape import ALIKE, UNLIKE

__all__ = ["causes", "varying_site"]


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """The time of CTAs differs, and the launch ends with the longest.

    Gain: what the launch takes beyond the waves of its grid, each as long as the mean CTA (`imbalance_pct` of
    `shape_of`): what an even distribution would save. The line is that of the innermost loop, or else the
    scope, whose time varies with that of its CTA. Confidence: high where CTAs ran different numbers of
    iterations, or scopes a different number of times; medium where that was not recorded, and the standard
    deviation of their time is at least half of its mean. CTAs that do as much in times less unlike are no
    finding.
    """
    shape = judged.shape
    if shape is None or shape.variation < ALIKE:
        return
    site, share, counts = varying_site(judged)
    if counts[0] == counts[1] and shape.variation < UNLIKE:
        return
    file, line = judged.at(site) if site >= 0 else judged.place
    what = (
        f"; {100 * share:.0f} % of the differences arise in {judged.sites['scope'].iloc[site]}"
        if site >= 0
        else ""
    )
    unit = "us of model time" if judged.emulated else "us"
    often = f", which runs {counts[0]:,} to {counts[1]:,} steps a CTA" if counts[0] != counts[1] else ""
    yield Finding(
        "load-imbalance",
        file,
        line,
        f"the mean CTA takes {shape.mean_ns / 1e3:.1f} {unit}, the longest {shape.longest_ns / 1e3:.1f} "
        f"(standard deviation {100 * shape.variation:.0f} % of the mean){what}{often}",
        "spread the work evenly: sort or interleave long and short tiles, or let programs fetch the next "
        "tile from a counter",
        shape.imbalance_pct,
        "high" if counts[0] != counts[1] else "medium",
    )


def varying_site(judged: Judged) -> tuple[int, float, tuple[int, int]]:
    """The innermost site whose time varies with that of its CTA.

    Returns its row (-1: none), its part of the differences, 0 to 1, and how often what is in it, or for
    want of that it itself, ran in the CTA where it ran least and most.
    """
    spans, ctas = judged.spans, len(judged.ctas)
    time = np.bincount(spans.cta, spans.duration * (spans.parent < 0), ctas)
    seen = np.bincount(spans.cta, minlength=ctas) > 0
    away = (time - time[seen].mean()) * seen
    spread = float((away * away).sum()) or 1.0
    part = judged.total(spans.duration * away[spans.cta]) / spread
    loops = judged.sites["kind"].isin(("loop", "scope", "op")).to_numpy()
    inner = np.flatnonzero(loops & (part >= 0.5))
    if not len(inner):
        return -1, 0.0, (0, 0)
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


def _times(judged: Judged, site: int, seen: np.ndarray) -> tuple[int, int]:
    spans, ctas = judged.spans, len(judged.ctas)
    inside = spans.site[spans.parent] == site
    inside &= spans.parent >= 0
    rows = inside if inside.any() else spans.site == site
    of_warps = np.bincount(spans.warp[rows], minlength=int(spans.warp.max()) + 1)
    times = np.zeros(ctas, np.int64)  # of the warp of each CTA that ran it most often
    np.maximum.at(times, spans.cta, of_warps[spans.warp])
    return int(times[seen].min()), int(times[seen].max())
