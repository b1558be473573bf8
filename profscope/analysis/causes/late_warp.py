"""late-warp: the warps of a CTA wait for one of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.span_rows import Ints
from profscope.analysis.sync_points import may_meet, meetings

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Warps come to a barrier at different times.

    A meeting is a barrier, a reduction or a layout conversion that all warps of a CTA run equally often and
    leave closer together than they came. That warps end at different times is no loss: those that are left
    have the SM for themselves. Gain: at each meeting the time from the mean arrival to the last, summed over
    meetings, over the time of the CTAs: what would be saved if all came at the mean. The line is that of the
    scope in which the last warp spent more than the others, or of the meeting where no span covers that.
    Confidence: high where one warp of a CTA loses at least three quarters of the time, medium otherwise.
    """
    spans = judged.spans
    if not may_meet(judged).any() or partitions_of(judged) > 1:
        return
    roots = spans.parent < 0
    warps = np.bincount(spans.cta[roots], minlength=len(judged.ctas))
    if warps.max(initial=0) < 2:
        return
    lost_at = _lost(judged, warps)
    lost = float(lost_at["lost"].sum())
    took = float((spans.duration[roots]).sum() / warps.max())
    last = lost_at[lost_at["lost"] > 0]
    by_warp = last.groupby(["cta", "last"])["lost"].sum()
    latest = by_warp.groupby("cta").idxmax() if len(by_warp) else None
    if latest is None or not len(latest):
        return
    late = dict(latest.tolist())
    same = float(by_warp.groupby("cta").max().sum() / max(1.0, by_warp.sum()))
    site, excess = _where(judged, late, warps)
    meeting = int(np.argmax(np.bincount(lost_at["site"], lost_at["lost"])))
    file, line = judged.at(site if site >= 0 else meeting)
    number = int(np.bincount(_numbers_in_cta(judged)[list(late.values())]).argmax())
    at = judged.sites["scope"].iloc[meeting]
    spent = (
        f"; it spends {excess:,.0f} cycles more than the others in {judged.sites['scope'].iloc[site]}"
        if site >= 0
        else ""
    )
    yield Finding(
        "late-warp",
        file,
        line,
        f"warps wait for the last one, mostly at {at} (line {judged.at(meeting)[1]}): "
        f"{100 * lost / max(1.0, took):.0f} % of a CTA's time passes between the mean arrival and the "
        f"last; most often warp {number} is last{spent}",
        "give all warps the same work: another layout, data-dependent loops sorted by length, or fewer "
        "barriers",
        100 * lost / max(1.0, took),
        "high" if same >= 0.75 else "medium",
        also=(judged.at(meeting)[1],),
    )


def _lost(judged: KernelAnalysis, warps: Ints) -> pd.DataFrame:
    """site, cta, lost (cycles from the mean arrival to the last) and last (the warp that came last)."""
    table = meetings(judged)
    table = table[table["aligned"] & (table["came"] == warps[table["cta"]])]
    last = table[table["begin"] == table["latest"]].drop_duplicates("number")
    return last.assign(lost=last["latest"] - last["mean"], last=last["warp"])[["site", "cta", "lost", "last"]]


def _where(judged: KernelAnalysis, late: dict[int, int], warps: Ints) -> tuple[int, float]:
    """The site, meetings left out, in which late warps spent more than the mean of their CTA, and how
    much a CTA."""
    spans = judged.spans
    late_of = np.full(len(judged.ctas), -1)
    late_of[list(late)] = list(late.values())
    is_late = spans.warp == late_of[spans.cta]
    concerned = late_of[spans.cta] >= 0
    cycles = spans.own.astype(np.float64)
    mean = np.bincount(spans.site, cycles * concerned / np.maximum(warps[spans.cta], 1), len(judged.sites))
    excess = np.bincount(spans.site, cycles * is_late, len(judged.sites)) - mean
    excess[may_meet(judged)] = 0
    site = int(np.argmax(excess))
    kinds = judged.sites["kind"].iloc[site]
    total = float(excess[excess > 0].sum())
    if excess[site] <= 0.3 * total or kinds == "kernel":
        return -1, 0.0
    return site, float(excess[site]) / max(1, len(late))


def _numbers_in_cta(judged: KernelAnalysis) -> Ints:
    """By warp, its number in its CTA."""
    first = np.unique(judged.spans.warp, return_index=True)[1]
    return judged.tables.df["warp"].to_numpy()[judged.spans.row[first]].astype(np.int64)
