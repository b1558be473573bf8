"""Rows by launch, SM, CTA, warp, line, scope, ...: what each took."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from profscope.analysis.line_rows import GAP
from profscope.analysis.scopes.table import RowFilter
from profscope.analysis.spans.ctas import ctas_with_spans, launch_durations, whole_warps
from profscope.analysis.spans.rows import launch_scales, not_samples
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.analysis.texts import source_text
from profscope.schema import Tables

__all__ = ["OF_LAUNCHES", "OF_SCOPES", "ByRow", "make_rows"]

OF_SCOPES = ("line", "scope", "kind")
"""Rows of these are sums of the summary's rows; of the others sums over whole warps. Both are without what
recording took, where that is known."""

OF_LAUNCHES = ("kernel", "variant", "launch", "rank")
"""What whole launches have a part in: where some of their CTAs recorded, the time of all is estimated."""

NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class ByRow:
    """total: warp time, of scopes their durations; self: of scopes that less what is inside. scaled: whether
    both, and the count of spans, are estimates for whole grids. count: of the warps that recorded, or of
    spans. share: of the warp time of all that is shown. mean, max: of a warp, or of a span. duration: of a
    launch or a CTA, as read; None if not known.
    """

    kernel: str
    key: str
    launch: int | None
    sm: int | None
    ctas: int | None
    count: int
    total: int
    self: int
    scaled: bool
    share: float
    mean: float
    max: int | None
    duration: int | None


def make_rows(tables: Tables, by: str, unit: str, chosen: RowFilter, sort: str | None) -> list[ByRow]:
    """All rows, the one of most time first: of CTAs the slowest, of scopes that of most self time."""
    rows = _of_scopes(tables, by, unit, chosen) if by in OF_SCOPES else _of_warps(tables, by, unit)
    if sort == "name":
        return sorted(rows, key=lambda row: (row.kernel, len(row.key) if row.key.isdecimal() else 0, row.key))
    name = sort or ("duration" if by == "cta" else "self" if by in OF_SCOPES else "total")
    return sorted(rows, key=lambda row: -(getattr(row, name) or 0))


def _of_warps(tables: Tables, by: str, unit: str) -> list[ByRow]:
    """Sums over whole warps."""
    table = _warps(tables, by, unit)
    lasted = _lasted(tables, by, unit)
    everything = float(table["estimate"].sum())
    # A launch's or a CTA's; and SMs have clocks of their own, so cycles are compared within a CTA alone.
    key = {"cta": ["kernel", "launch", "cta"], "launch": ["kernel", "launch"]}.get(by, ["kernel", by])
    rows = []
    for names, own in table.groupby(list(dict.fromkeys(key)), sort=True):
        ctas = None
        label: Any = names if isinstance(names, tuple) else (names,)
        if by != "cta" and (own["cta"] >= 0).any():
            ctas = len(own[["launch", "cta"]].drop_duplicates())
        total = round(own["estimate"].sum())
        rows.append(
            ByRow(
                kernel=str(label[0]),
                key=str(label[-1]),
                launch=int(own["launch"].iloc[0]) if by in ("cta", "launch") else None,
                sm=int(own["sm"].iloc[0]) if by in ("cta", "sm") else None,
                ctas=ctas,
                count=len(own),
                total=total,
                self=total,
                scaled=bool((own["estimate"] != own["length"]).any()),
                share=total / everything if everything else 0.0,
                mean=float(own["length"].mean()),
                max=int(own["length"].max()),
                duration=lasted.get(label[1:]),
            )
        )
    return rows


def _lasted(tables: Tables, by: str, unit: str) -> dict[tuple[int, ...], int]:
    """How long each launch or CTA took, as all views have it; of those whose times are known."""
    if by == "launch":
        times = launch_durations(tables, unit)
        known = times.notna()
        launches = tables.launches["launch"][known].tolist()
        return {(launch,): round(time) for launch, time in zip(launches, times[known], strict=True)}
    if by == "cta":
        ctas = ctas_with_spans(tables)
        columns = (ctas[name].tolist() for name in ("launch", "cta", unit))
        return {(launch, cta): time for launch, cta, time in zip(*columns, strict=True)}
    return {}


def _warps(tables: Tables, by: str, unit: str) -> pd.DataFrame:
    """What rows add up: whole warps, one a row. length: in all; estimate: that, for `OF_LAUNCHES` of the
    whole grid."""
    scale = pd.Series(launch_scales(tables), tables.launches["launch"])
    table = whole_warps(tables, unit)
    of_launch = tables.launches.drop_duplicates("launch").set_index("launch")[["variant", "rank"]]
    table = table.join(of_launch, on="launch")
    return table.assign(estimate=table["length"] * (table["launch"].map(scale) if by in OF_LAUNCHES else 1.0))


def _of_scopes(tables: Tables, by: str, unit: str, chosen: RowFilter) -> list[ByRow]:
    """Sums over rows of the summary."""
    summary = summary_of(tables, summed_spans(tables))
    summary = summary[summary["kind"] != "async"]
    everything = int(summary[f"self_{unit}"].sum())
    if not chosen.are_all:
        places = zip(summary["file"], summary["line"], summary["scope"], strict=True)
        summary = summary[[chosen.has(str(file), int(line), str(scope)) for file, line, scope in places]]
        chosen.check(tables)
    if by == "line":  # time that no record covers is at none
        summary = summary.assign(
            file=summary["file"].astype("str").mask(summary["kind"] == GAP, NOT_RECORDED),
            line=summary["line"].mask(summary["kind"] == GAP, 0),
        )
    unscaled = not_samples(tables.metadata)
    key = ["kernel", "file", "line"] if by == "line" else ["kernel", by]
    rows = []
    for names, own in summary.groupby(key, observed=True, sort=False):
        label: Any = names
        count, total, self_time = (
            int(own[name].sum()) for name in ("count", f"total_{unit}", f"self_{unit}")
        )
        longest = own[f"max_{unit}"].max()
        rows.append(
            ByRow(
                kernel=str(label[0]),
                key=source_text(str(label[1]), int(label[2])) if by == "line" else str(label[1]),
                launch=None,
                sm=None,
                ctas=None,
                count=count,
                total=total,
                self=self_time,
                scaled=bool((own["sampled"] < 1).any()) and str(label[0]) not in unscaled,
                share=self_time / everything if everything else 0.0,
                mean=total / count if count else 0.0,
                max=None if pd.isna(longest) else int(longest),
                duration=None,
            )
        )
    return rows
