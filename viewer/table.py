"""The table: one row per kernel and scope, heaviest first."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.profiles import Profile
from viewer.grid import Column, grid
from viewer.units import count_text, duration_text, printable, rate_text, share_text

__all__ = ["KernelTable", "ScopeRow", "make_tables", "render_table"]

WORK = ("bytes", "flops")
RATES = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s"}
RATES_WIDTH = 96
"""Narrower tables leave the rates out."""

STATISTICS = ("total", "self", "mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class ScopeRow:
    """One scope's figures in the table's unit; share is of the kernel's warp time, None if in flight.

    measures, bytes, flops and the rates are those of `analysis.work.with_work`, None where there are none.
    """

    scope: str
    kind: str
    file: str
    line: int
    count: int
    total: int
    self: int
    mean: float
    p50: int
    p90: int
    p99: int
    max: int
    share: float | None
    measures: str
    bytes: int | None
    flops: int | None
    gb_per_s: float | None
    tflop_per_s: float | None


@dataclass(frozen=True)
class KernelTable:
    """A kernel's scopes. `warp_time` is the sum over its warps, in `unit`; `omitted` rows were left out.

    sampled: the part of its CTAs that was recorded. If it is not 1, the figures of the rows and `warp_time`
    are scaled up to all CTAs; launches, ctas and warps are those recorded.
    """

    kernel: str
    unit: str
    launches: int
    ctas: int
    warps: int
    warp_time: int
    sampled: float
    rows: list[ScopeRow]
    omitted: int


def make_tables(profile: Profile, unit: str, top: int) -> list[KernelTable]:
    """A table per kernel with spans inside, most warp time first; the `top` rows of each (0: all)."""
    df = profile.df
    summary = profile.summary()
    roots = df[(df["depth"] == 0) & (df["kind"] != "async")]
    tables = []
    for kernel in summary["kernel"].unique():
        rows = summary[summary["kernel"] == kernel]
        if len(rows) == 1 and rows["kind"].iloc[0] == "kernel":
            continue
        own = roots[roots["kernel"] == kernel]
        warp_time = int(rows[f"self_{unit}"].sum())
        tables.append(
            KernelTable(
                kernel=kernel,
                unit=unit,
                launches=int(own["launch"].nunique()),
                ctas=len(own[["launch", "cta"]].drop_duplicates()),
                warps=len(own),
                warp_time=warp_time,
                sampled=float(rows["sampled"].iloc[0]),
                rows=[_row(row, unit, warp_time) for row in rows.head(top or len(rows)).to_dict("records")],
                omitted=max(len(rows) - top, 0) if top else 0,
            )
        )
    return sorted(tables, key=lambda table: -table.warp_time)


def _row(row: dict[Any, Any], unit: str, warp_time: int) -> ScopeRow:
    figures = {name: row[f"{name}_{unit}"] for name in STATISTICS}
    in_flight = row["kind"] == "async"
    work: dict[str, Any] = {name: None if pd.isna(row[name]) else int(row[name]) for name in WORK}
    work |= {name: None if pd.isna(row[name]) else float(row[name]) for name in RATES}
    return ScopeRow(
        scope=str(row["scope"]),
        kind=str(row["kind"]),
        file=str(row["file"]),
        line=int(row["line"]),
        count=int(row["count"]),
        **figures,
        share=None if in_flight or not warp_time else float(figures["self"] / warp_time),
        measures=str(row["measures"]),
        **work,
    )


def render_table(table: KernelTable, width: int) -> list[Text]:
    """The table's lines, the first a title."""
    title = Text.assemble((printable(table.kernel), "bold"), "  ", (_title(table), "dim"))
    columns = [
        Column("scope", "name"),
        *map(Column, ("line", "count", *STATISTICS[:2], "share", *STATISTICS[2:])),
    ]
    rates = _rates(table, width)
    columns += [Column(RATES[name]) for name in rates]
    rows = []
    for row in table.rows:
        figures = {name: duration_text(getattr(row, name), table.unit) for name in STATISTICS}
        if row.kind == "async":
            figures["self"] = "-"
        durations = [figures[name] for name in STATISTICS]
        place = [printable(row.scope), str(row.line or "")]
        rows.append([*place, count_text(row.count), *durations[:2], share_text(row.share), *durations[2:]])
        rows[-1] += [rate_text(getattr(row, name)) for name in rates]
    styles = ["" if row.share is None or row.share >= 0.01 else "dim" for row in table.rows]
    lines = [title, *grid(columns, rows, styles, width)]
    if table.omitted:
        lines.append(
            Text(f"{table.omitted} more scopes with less self time; --top 0 shows them", style="dim")
        )
    return lines


def _rates(table: KernelTable, width: int) -> list[str]:
    """The rates that a row has, where the lines are long enough for them."""
    if width < RATES_WIDTH:
        return []
    return [name for name in RATES if any(getattr(row, name) is not None for row in table.rows)]


def _title(table: KernelTable) -> str:
    counts = (
        (table.launches, "launch", "launches"),
        (table.ctas, "CTA", "CTAs"),
        (table.warps, "warp", "warps"),
    )
    parts = [f"{count_text(count)} {one if count == 1 else many}" for count, one, many in counts]
    unit = "" if table.unit == "ns" else " cycles"
    sampled = "" if table.sampled == 1 else f", scaled up from {share_text(table.sampled)} of its CTAs"
    return f"{', '.join(parts)}, {duration_text(table.warp_time, table.unit)}{unit} of warp time{sampled}"
