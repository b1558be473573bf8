"""Causes that lie between the warps of a CTA, by what each warp's spans took: the begin and end of each are
measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.cause import Finding, Gain, Quantity, cited
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.sync_points import may_meet, meetings, partition_of_warp, partitions_of
from profscope.analysis.spans.rows import Ints

__all__ = ["CAUSES"]


def late_warp(facts: KernelFacts) -> Iterator[Finding]:
    """Warps come to a barrier at different times.

    A meeting is a barrier, a reduction or a layout conversion that all warps of a CTA run equally often and
    leave closer together than they came. That warps end at different times is no loss: those that are left
    have the SM for themselves. Gain: at each meeting the time from the mean arrival to the last, summed over
    meetings, over the time of the CTAs: what would be saved if all came at the mean. The line is that of the
    scope in which the last warp spent more than the others, or of the meeting where no span covers that.
    Confidence: high where one warp of a CTA loses at least three quarters of the time, medium otherwise.
    """
    judged = facts.analysis
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
    sentence = (
        "warps wait for the last one, mostly at {meeting}: {lost} passes between the mean arrival and the "
        "last; most often {last} is last"
    )
    cites: dict[str, Quantity | str] = {
        "meeting": f"{judged.sites['scope'].iloc[meeting]} (line {judged.at(meeting)[1]})",
        "lost": Quantity(100 * lost / max(1.0, took), "% of a CTA's time"),
        "last": f"warp {number}",
    }
    if site >= 0:
        sentence += "; it spends {excess} more than the others in {where}"
        cites |= {"excess": Quantity(excess, "cycles"), "where": str(judged.sites["scope"].iloc[site])}
    yield Finding(
        "late-warp",
        file,
        line,
        cited(sentence, **cites),
        "give all warps the same work: another layout, data-dependent loops sorted by length, or fewer "
        "barriers",
        _measured(100 * lost / max(1.0, took)),
        "high" if same > 0.5 else "medium",  # most passes wait for the same warp
    )


def _measured(pct: float) -> Gain:
    """Of time that spans have measured; how much of it others fill is not known."""
    return Gain(pct, 0.0, pct)


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
    if excess[site] <= thresholds.MUCH * total or kinds == "kernel":
        return -1, 0.0
    return site, float(excess[site]) / max(1, len(late))


def _numbers_in_cta(judged: KernelAnalysis) -> Ints:
    """By warp, its number in its CTA."""
    first = np.unique(judged.spans.warp, return_index=True)[1]
    return judged.tables.df["warp"].to_numpy()[judged.spans.row[first]].astype(np.int64)


def partition_starved(facts: KernelFacts) -> Iterator[Finding]:
    """All partitions wait for each other, or the one that works most waits for its producers.

    Of each partition: the time of its waits for other partitions in its loop, less 100 cycles each, over the
    CTA's time. Gain: the share of the partition that waits least, among those with dots, or among all where
    none has dots: the others only wait for it. Waits for dots are its own work. Confidence: high for a
    share of at least a quarter of the partition's time, medium for less. The line is that of the wait, or
    of the partition's dot where the wait has none of its own.
    """
    judged = facts.analysis
    if partitions_of(judged) < 2 or facts.known.issuperset(("counters", "samples", "ttgir")):
        return  # `tensor_causes` has it from samples
    spans, sites = judged.spans, judged.sites
    partition = partition_of_warp(judged)[spans.warp]
    others = (sites["cls"] == "wait") & ~sites["scope"].str.startswith("tma store")
    rows = others.to_numpy()[spans.site] & (spans.iteration >= 0) & ~judged.for_dots
    with_dots = np.unique(partition[judged.of_class("mma")])
    working = with_dots if len(with_dots) else np.unique(partition[spans.iteration >= 0])
    if not len(working) or not rows.any():
        return
    lost = np.where(rows, np.maximum(spans.duration - thresholds.PASSED_CYCLES, 0), 0)
    ctas = float((judged.ctas["cycles"].to_numpy()[np.unique(spans.cta)]).sum())
    shares = {}
    for each in working:
        warps = len(np.unique(spans.warp[partition == each])) / max(1, len(np.unique(spans.cta)))
        shares[int(each)] = 100 * float(lost[partition == each].sum()) / max(1.0, ctas * warps)
    least = min(shares, key=lambda each: shares[each])
    by_site = judged.total(lost, rows & (partition == least))
    site = int(np.argmax(by_site))
    count = int((rows & (partition == least) & (spans.site == site)).sum())
    if by_site[site] < thresholds.PASSED_CYCLES * count:
        return
    file, line = _place(judged, site, partition == least)
    names = {each: _name(judged, each) for each in np.unique(partition)}
    busy = {f"working_{each}": Quantity(100 * _work(judged, partition == each, rows), "%") for each in names}
    sentence = ", ".join(f"{{name_{each}}} {{working_{each}}}" for each in names)
    yield Finding(
        "partition-starved",
        file,
        line,
        cited(
            "{partition} waits {waiting} at {where}, {each_time} a time; parts of their time in which "
            f"partitions do not wait: {sentence}",
            partition=names[least],
            waiting=Quantity(shares[least], "% of the CTA's time"),
            where=str(sites["scope"].iloc[site]),
            each_time=Quantity(by_site[site] / max(1, count), "cycles"),
            **{f"name_{each}": name for each, name in names.items()},
            **busy,
        ),
        "give the producer more buffers (num_stages) or larger copies, more warps to the partition that "
        "is behind, or move work to the one that waits",
        _measured(shares[least]),
        "high" if shares[least] >= 100 * thresholds.MUCH else "medium",
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


CAUSES: Final = (late_warp, partition_starved)
