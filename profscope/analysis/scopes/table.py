"""The table of scopes: one row per kernel, variant and scope, heaviest first; and the rows that views
show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from profscope.analysis.model.labels import Group
from profscope.analysis.model.missing import FRAMES, MOSTLY_UNCOVERED, more_spans
from profscope.analysis.model.numbers import entry_of
from profscope.analysis.spans.ctas import recorded_counts
from profscope.analysis.spans.rows import not_samples
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.analysis.texts import printable
from profscope.analysis.variants import rows_of
from profscope.errors import TraceError
from profscope.schema import Tables

__all__ = ["STATISTICS", "KernelTable", "RowFilter", "ScopeRow", "ends_with", "make_tables"]

Row = TypeVar("Row")


class RowFilter:
    """line: only rows of this line, by the end of its file's path and its number. scope: only rows whose
    scope this regular expression matches."""

    def __init__(self, line: tuple[str, int] | None = None, scope: str | None = None) -> None:
        self._line, self._scope = line, scope
        self._any = False

    @property
    def are_all(self) -> bool:
        return self._line is None and self._scope is None

    def has(self, file: str, line: int, scope: str | None = None) -> bool:
        """Whether a row is shown. scope: None of rows that are of a line and of no scope."""
        if self._line is not None and not (line == self._line[1] and ends_with(file, self._line[0])):
            return False
        fits = self._scope is None or scope is None or re.search(self._scope, scope) is not None
        self._any |= fits and (scope is not None or self._scope is None)
        return fits

    def chosen(self, rows: Sequence[Row], scope: str = "scope") -> list[Row]:
        """Those of some rows that are shown: objects with file, line and, mostly, a scope."""
        return [row for row in rows if self._shows(row, scope)]

    def _shows(self, row: Any, scope: str) -> bool:
        return self.are_all or self.has(row.file, row.line, getattr(row, scope, None))

    def check(self, tables: Tables) -> None:
        """Raise TraceError where nothing was shown for it, naming what there is."""
        if self.are_all or self._any:
            return
        summary = summary_of(tables, summed_spans(tables))
        if self._line is not None:
            lines = sorted({int(line) for line in summary["line"] if line})
            file, line = self._line
            asked = f"{file}:{line}" if file else f"line {line}"
            there = ", ".join(map(str, lines[:20])) or "none"
            raise TraceError(f"nothing was recorded at {asked}; there are spans at lines {there}")
        names = list(dict.fromkeys(printable(str(name)) for name in summary["scope"]))
        raise TraceError(f"no scope matches {self._scope!r}; there are: {', '.join(names[:20]) or 'none'}")


def ends_with(path: str, end: str) -> bool:
    """Whether a path is `end`, or ends with these folders and file."""
    steps, last = (re.split(r"[\\/]", text) for text in (path, end))
    return not end or steps[-len(last) :] == last


STATISTICS = ("total", "self", "mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class ScopeRow:
    """One scope's figures in the table's unit; share is of the table's warp time, None if in flight.

    The percentiles and max are None if they were not asked for. measures, bytes_at_most, flops
    and the rates are those of `analysis.summary.with_work`, None if there are none.
    """

    variant: int
    scope: str
    kind: str
    file: str
    line: int
    call_path: str
    count: int
    total: int
    self: int
    mean: float
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None
    share: float | None
    measures: str
    bytes_at_most: int | None
    flops: int | None
    gb_per_s_at_most: float | None
    tflop_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class KernelTable(Group):
    """The scopes of a group of launches. `warp_time` is the sum over their warps, in `unit`; `omitted` rows
    were left out.

    sampled: the part of their CTAs that is shown. scaled: whether the figures of the rows and `warp_time` are
    scaled up from it to all CTAs; launches, ctas and warps are those recorded. uncovered: the share of
    `warp_time` that is in no op's span nor a named scope's; advice: what would show more, "" if most is
    covered.
    """

    unit: str
    launches: int
    ctas: int
    warps: int
    warp_time: int
    sampled: float
    scaled: bool
    uncovered: float
    advice: str
    rows: list[ScopeRow]
    omitted: int


def make_tables(
    tables: Tables,
    unit: str,
    top: int,
    groups: Sequence[Group],
    chosen: RowFilter | None = None,
    sort: str | None = None,
    summary: pd.DataFrame | None = None,
) -> list[KernelTable]:
    """A table for each of some groups, in their order, that has spans inside; `top` rows of each (0: all).

    Rows are ordered by self time in `unit`, or by `sort`, a column. chosen: which rows are shown.
    summary: the profile's, if known.
    """
    keys = [f"self_{unit}", f"total_{unit}", "scope", "line"]
    summary = summary_of(tables, summed_spans(tables)) if summary is None else summary
    summary = summary.sort_values(keys, ascending=[False, False, True, True], kind="stable")
    if sort is not None and sort not in ("self", "share"):
        column = {"name": "scope", "count": "count"}.get(sort, f"{sort}_{unit}")
        summary = summary.sort_values(column, ascending=sort == "name", kind="stable")
    chosen = chosen or RowFilter()
    counts = recorded_counts(tables)
    unscaled = not_samples(tables.metadata)
    options = tables.metadata.get("options") or {}
    made = []
    for group in groups:
        rows = rows_of(summary, group.kernel, group.variant)
        if rows.empty or (len(rows) == 1 and rows["kind"].iloc[0] == "kernel"):
            continue
        own = rows_of(counts, group.kernel, group.variant).iloc[0]
        warp_time = int(rows[f"self_{unit}"].sum())
        frames = int(rows.loc[rows["kind"].isin(FRAMES), f"self_{unit}"].sum())
        uncovered = frames / warp_time if warp_time else 0.0
        sampled = float(rows["sampled"].iloc[0])
        shown = chosen.chosen([_row(row, unit, warp_time) for row in rows.to_dict("records")])
        made.append(
            KernelTable(
                **group.identity,
                unit=unit,
                launches=int(own["launches"]),
                ctas=int(own["ctas"]),
                warps=int(own["warps"]),
                warp_time=warp_time,
                sampled=sampled,
                scaled=sampled < 1 and group.kernel not in unscaled,
                uncovered=uncovered,
                advice=more_spans(options) if uncovered >= MOSTLY_UNCOVERED else "",
                rows=shown[: top or None],
                omitted=max(len(shown) - top, 0) if top else 0,
            )
        )
    return made


def _row(row: dict[Any, Any], unit: str, warp_time: int) -> ScopeRow:
    figures = {name: row[f"{name}_{unit}"] for name in STATISTICS}
    share = None if row["kind"] == "async" or not warp_time else float(figures["self"] / warp_time)
    return entry_of(ScopeRow, row | figures, share=share)
