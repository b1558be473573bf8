"""late-warp: the warps of a CTA wait for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged
from profscope.analysis.partitions import partitions_of
from profscope.analysis.span_rows import Ints

__all__ = ["causes"]

_MEETINGS: Final = ("barrier", "reduce", "layout")
# Ends of warps that met lie closer together than their begins, by at least this.
_ALIGNED: Final = 0.5


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """Warps come to a barrier, or to their end, at different times.

    A meeting is a barrier, a reduction or a layout conversion that all warps of a CTA run equally often and leave
    closer together than they came; the end of the CTA is one, too. Gain: at each meeting the time from the mean
    arrival to the last, summed over meetings, over the time of the CTAs: what would be saved if all came at the
    mean. The line is that of the scope in which the last warp spent more than the others, or of the meeting where
    no span covers that. Confidence: high where one warp is the last at 3 of 4 meetings, medium otherwise.
    """
    spans = judged.spans
    if partitions_of(judged) > 1:
        return
    roots = spans.parent < 0
    warps = np.bincount(spans.cta[roots], minlength=len(judged.ctas))
    if warps.max(initial=0) < 2:
        return
    meetings = _meetings(judged, warps)
    if meetings.empty:
        return
    lost = float(meetings["lost"].sum())
    took = float((spans.duration[roots]).sum() / warps.max())
    last = meetings.loc[meetings["lost"] > 0]
    by_warp = last.groupby(["cta", "last"])["lost"].sum()
    latest = by_warp.groupby("cta").idxmax() if len(by_warp) else None
    if latest is None or not len(latest):
        return
    late = {int(cta): int(warp) for cta, warp in latest}
    same = float(by_warp.groupby("cta").max().sum() / max(1.0, by_warp.sum()))
    site, excess = _where(judged, late, warps)
    meeting = int(meetings.groupby("site")["lost"].sum().idxmax())
    file, line = judged.at(site if site >= 0 else meeting)
    number = int(pd.Series([_number_in_cta(judged, warp) for warp in late.values()]).mode().iloc[0])
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
        f"warps wait for the last one, mostly at {at} (line {judged.at(meeting)[1]}): {100 * lost / max(1.0, took):.0f} % "
        f"of a CTA's time passes between the mean arrival and the last; most often warp {number} is last{spent}",
        "give all warps the same work: another layout, data-dependent loops sorted by length, or fewer barriers",
        100 * lost / max(1.0, took),
        "high" if same >= 0.75 else "medium",
        also=(judged.at(meeting)[1],),
    )


def _meetings(judged: Judged, warps: Ints) -> pd.DataFrame:
    """site, cta, lost (cycles from the mean arrival to the last) and last (the warp that came last)."""
    spans = judged.spans
    here = np.flatnonzero(judged.of_class(*_MEETINGS))
    table = pd.DataFrame(
        {"site": spans.site[here], "cta": spans.cta[here], "warp": spans.warp[here],
         "begin": spans.start[here], "end": spans.end[here]}
    )  # fmt: skip
    table["time"] = table.groupby(["warp", "site"]).cumcount()
    roots = np.flatnonzero(spans.parent < 0)
    ends = pd.DataFrame(
        {"site": spans.site[roots], "cta": spans.cta[roots], "warp": spans.warp[roots],
         "begin": spans.end[roots], "end": spans.end[roots], "time": 0}
    )  # fmt: skip
    ends["end"] = ends.groupby("cta")["end"].transform("max")
    both = pd.concat([table, ends], ignore_index=True)
    by_key = both.groupby(["site", "cta", "time"], sort=False)
    result = by_key.agg(
        count=("begin", "size"), mean=("begin", "mean"), latest=("begin", "max"), earliest=("begin", "min"),
        first=("end", "min"), end=("end", "max"),
    )  # fmt: skip
    result["last"] = both["warp"].to_numpy()[by_key["begin"].idxmax().to_numpy()]
    result = result.reset_index()
    all_came = result["count"].to_numpy() == warps[result["cta"].to_numpy()]
    spread = result["latest"] - result["earliest"]
    met = all_came & (result["end"] - result["first"] <= _ALIGNED * spread)
    return result[met].assign(lost=result["latest"] - result["mean"])


def _where(judged: Judged, late: dict[int, int], warps: Ints) -> tuple[int, float]:
    """The site, meetings left out, in which late warps spent more than the mean of their CTA, and how much a CTA."""
    spans = judged.spans
    late_of = np.full(len(judged.ctas), -1)
    late_of[list(late)] = list(late.values())
    is_late = spans.warp == late_of[spans.cta]
    concerned = late_of[spans.cta] >= 0
    # A site's own time and the gap behind it: what a record without an end may have started.
    cycles = spans.own.astype(np.float64)
    mean = np.bincount(spans.site, cycles * concerned / np.maximum(warps[spans.cta], 1), len(judged.sites))
    excess = np.bincount(spans.site, cycles * is_late, len(judged.sites)) - mean
    excess[judged.sites["cls"].isin(_MEETINGS).to_numpy()] = 0
    site = int(np.argmax(excess))
    kinds = judged.sites["kind"].iloc[site]
    total = float(excess[excess > 0].sum())
    if excess[site] <= 0.3 * total or kinds == "kernel":
        return -1, 0.0
    return site, float(excess[site]) / max(1, len(late))


def _number_in_cta(judged: Judged, warp: int) -> int:
    row = judged.spans.row[int(np.searchsorted(judged.spans.warp, warp))]
    return int(judged.tables.df["warp"].iloc[int(row)])
