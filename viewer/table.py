"""The table: one row per kernel, variant and scope, heaviest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.model.labels import Group, differs_text
from profscope.analysis.spans.rows import not_samples
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.profiles import Profile
from viewer.cells import wrap
from viewer.filters import Rows
from viewer.grid import Column, grid, heading
from viewer.paths import told_apart
from viewer.uncovered import FRAMES, MOSTLY, advice
from viewer.units import count_text, duration_text, printable, rate_text, share_text
from viewer.warps import recorded

__all__ = ["KernelTable", "ScopeRow", "make_tables", "render_heading", "render_table", "render_uncovered"]

WORK = ("bytes_at_most", "flops")
RATES = {"gb_per_s_at_most": "≤ GB/s", "tflop_per_s": "TFLOP/s"}
STATISTICS = ("total", "self", "mean", "p50", "p90", "p99", "max")
LONGEST = ("p50", "p90", "p99", "max")
LOADS = {"issue": "spans on loads end at their issue", "data": "spans on loads end with their data"}
SPARE = {"mean": 3, "p50": 6, "p90": 7, "p99": 5, "max": 4}
"""The statistics behind the share, and which of them short lines leave out first: see `Column`."""


@dataclass(frozen=True)
class ScopeRow:
    """One scope's figures in the table's unit; share is of the table's warp time, None if in flight.

    The percentiles and max are None where they were not asked for. measures, bytes_at_most, flops
    and the rates are those of `analysis.work.with_work`, None where there are none.
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
    `warp_time` that is in no op's span nor a named scope's; advice: what would show more, "" where most is
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
    profile: Profile,
    unit: str,
    top: int,
    groups: Sequence[Group],
    chosen: Rows | None = None,
    sort: str | None = None,
    summary: pd.DataFrame | None = None,
) -> list[KernelTable]:
    """A table for each of some groups, in their order, that has spans inside; `top` rows of each (0: all).

    Rows are ordered by self time in `unit`, or by `sort`, one of `option_types.SORTS`. chosen: which rows are
    shown. summary: the profile's, where that is known.
    """
    keys = [f"self_{unit}", f"total_{unit}", "scope", "line"]
    summary = summary_of(profile.tables, summed_spans(profile.tables)) if summary is None else summary
    summary = summary.sort_values(keys, ascending=[False, False, True, True], kind="stable")
    if sort is not None and sort not in ("self", "share"):
        column = {"name": "scope", "count": "count"}.get(sort, f"{sort}_{unit}")
        summary = summary.sort_values(column, ascending=sort == "name", kind="stable")
    chosen = chosen or Rows()
    counts = recorded(profile)
    unscaled = not_samples(profile.metadata)
    options = profile.metadata.get("options") or {}
    tables = []
    for group in groups:
        rows = _of(summary, group)
        if rows.empty or (len(rows) == 1 and rows["kind"].iloc[0] == "kernel"):
            continue
        own = _of(counts, group).iloc[0]
        warp_time = int(rows[f"self_{unit}"].sum())
        frames = int(rows.loc[rows["kind"].isin(FRAMES), f"self_{unit}"].sum())
        uncovered = frames / warp_time if warp_time else 0.0
        sampled = float(rows["sampled"].iloc[0])
        shown = chosen.chosen([_row(row, unit, warp_time) for row in rows.to_dict("records")])
        tables.append(
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
                advice=advice(options) if uncovered >= MOSTLY else "",
                rows=shown[: top or None],
                omitted=max(len(shown) - top, 0) if top else 0,
            )
        )
    return tables


def _of(table: pd.DataFrame, group: Group) -> pd.DataFrame:
    is_own = (table["kernel"] == group.kernel) & (table["variant"] == group.variant)
    return table[is_own]


def _row(row: dict[Any, Any], unit: str, warp_time: int) -> ScopeRow:
    figures = {name: row[f"{name}_{unit}"] for name in STATISTICS}
    figures |= {name: None if pd.isna(figures[name]) else int(figures[name]) for name in LONGEST}
    in_flight = row["kind"] == "async"
    work: dict[str, Any] = {name: None if pd.isna(row[name]) else int(row[name]) for name in WORK}
    work |= {name: None if pd.isna(row[name]) else float(row[name]) for name in RATES}
    return ScopeRow(
        variant=int(row["variant"]),
        scope=str(row["scope"]),
        kind=str(row["kind"]),
        file=str(row["file"]),
        line=int(row["line"]),
        call_path=str(row["call_path"]),
        count=int(row["count"]),
        **figures,
        share=None if in_flight or not warp_time else float(figures["self"] / warp_time),
        measures=str(row["measures"]),
        **work,
    )


def render_table(table: KernelTable, width: int, said: Sequence[str] = ()) -> list[Text]:
    """The table's lines, the first a title. said: of all times in it, in the title."""
    rates = [name for name in RATES if any(getattr(row, name) is not None for row in table.rows)]
    columns = [Column("scope", "name"), Column("line", spare=1), Column("count"), Column("total", spare=2)]
    columns += [
        Column("self"),
        Column("self %"),
        *(Column(name, spare=spare) for name, spare in SPARE.items()),
    ]
    columns += [Column(RATES[name], spare=8) for name in rates]
    rows = []
    apart = told_apart([((row.scope, row.line), row.call_path) for row in table.rows])
    for row, path in zip(table.rows, apart, strict=True):
        values = {name: getattr(row, name) for name in STATISTICS}
        figures = {
            name: "-" if value is None else duration_text(value, table.unit) for name, value in values.items()
        }
        if row.kind == "async":
            figures["self"] = "-"
        durations = [figures[name] for name in STATISTICS]
        place = [printable(row.scope + path), str(row.line or "")]
        rows.append([*place, count_text(row.count), *durations[:2], share_text(row.share), *durations[2:]])
        rows[-1] += [rate_text(getattr(row, name)) for name in rates]
    styles = ["" if row.share is None or row.share >= 0.01 else "dim" for row in table.rows]
    lines = [*render_heading(table, width, said), *grid(columns, rows, styles, width)]
    if table.omitted:
        lines.append(
            Text(f"{table.omitted} more scopes with less self time; --top 0 shows them", style="dim")
        )
    return lines


def render_heading(table: KernelTable, width: int, said: Sequence[str] = ()) -> list[Text]:
    """The kernel, how many launches, CTAs and warps there were of it, and their time; what is `said` of it;
    and with what spans on its loads end."""
    ends = {row.measures for row in table.rows if row.kind == "op" and row.scope.startswith("load ")}
    loads = [text for measures, text in LOADS.items() if measures in ends]
    return heading(printable(table.name), [*_title(table), *said, *loads], width)


def render_uncovered(table: KernelTable, width: int) -> list[Text]:
    """How much of the time no op's span covers, where that is much, and what would show more."""
    if not table.advice:
        return []
    note = f"{share_text(table.uncovered)} of the warp time is in no op's span; {table.advice}."
    return [Text(line) for line in wrap(note.split(), width)]


def _title(table: KernelTable) -> list[str]:
    counts = (
        (table.launches, "launch", "launches"),
        (table.ctas, "CTA", "CTAs"),
        (table.warps, "warp", "warps"),
    )
    parts = [f"{count_text(count)} {one if count == 1 else many}" for count, one, many in counts]
    unit = "" if table.unit == "ns" else " cycles"
    parts = [differs_text(table.differs), *parts] if table.differs else parts
    parts.append(f"{duration_text(table.warp_time, table.unit)}{unit} of warp time")
    if table.sampled < 1:
        parts.append(f"{'scaled up from ' if table.scaled else ''}{share_text(table.sampled)} of its CTAs")
    return parts
