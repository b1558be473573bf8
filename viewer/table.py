"""The table: one row per kernel and scope, heaviest first."""

from dataclasses import dataclass
from typing import Any

from rich.text import Text

from profscope.profile import Profile
from viewer.grid import Column, grid
from viewer.units import count_text, duration_text, printable, share_text

__all__ = ["KernelTable", "ScopeRow", "make_tables", "render_table"]

STATISTICS = ("total", "self", "mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class ScopeRow:
    """One scope's figures in the table's unit; share is of the kernel's warp time, None if in flight."""

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


@dataclass(frozen=True)
class KernelTable:
    """A kernel's scopes. `warp_time` is the sum over its warps, in `unit`; `omitted` rows were left out."""

    kernel: str
    unit: str
    launches: int
    ctas: int
    warps: int
    warp_time: int
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
        warp_time = int(own[f"duration_{unit}"].sum())
        tables.append(
            KernelTable(
                kernel=kernel,
                unit=unit,
                launches=int(own["launch"].nunique()),
                ctas=len(own[["launch", "cta"]].drop_duplicates()),
                warps=len(own),
                warp_time=warp_time,
                rows=[_row(row, unit, warp_time) for row in rows.head(top or len(rows)).to_dict("records")],
                omitted=max(len(rows) - top, 0) if top else 0,
            )
        )
    return sorted(tables, key=lambda table: -table.warp_time)


def _row(row: dict[Any, Any], unit: str, warp_time: int) -> ScopeRow:
    figures = {name: row[f"{name}_{unit}"] for name in STATISTICS}
    in_flight = row["kind"] == "async"
    return ScopeRow(
        scope=str(row["scope"]),
        kind=str(row["kind"]),
        file=str(row["file"]),
        line=int(row["line"]),
        count=int(row["count"]),
        **figures,
        share=None if in_flight or not warp_time else float(figures["self"] / warp_time),
    )


def render_table(table: KernelTable, width: int) -> list[Text]:
    """The table's lines, the first a title."""
    title = Text.assemble((printable(table.kernel), "bold"), "  ", (_title(table), "dim"))
    columns = [
        Column("scope", "name"),
        *map(Column, ("line", "count", *STATISTICS[:2], "share", *STATISTICS[2:])),
    ]
    rows = []
    for row in table.rows:
        figures = {name: duration_text(getattr(row, name), table.unit) for name in STATISTICS}
        if row.kind == "async":
            figures["self"] = "-"
        durations = [figures[name] for name in STATISTICS]
        place = [printable(row.scope), str(row.line or "")]
        rows.append([*place, count_text(row.count), *durations[:2], share_text(row.share), *durations[2:]])
    styles = ["" if row.share is None or row.share >= 0.01 else "dim" for row in table.rows]
    lines = [title, *grid(columns, rows, styles, width)]
    if table.omitted:
        lines.append(
            Text(f"{table.omitted} more scopes with less self time; --top 0 shows them", style="dim")
        )
    return lines


def _title(table: KernelTable) -> str:
    counts = (
        (table.launches, "launch", "launches"),
        (table.ctas, "CTA", "CTAs"),
        (table.warps, "warp", "warps"),
    )
    parts = [f"{count_text(count)} {one if count == 1 else many}" for count, one, many in counts]
    unit = "" if table.unit == "ns" else " cycles"
    return f"{', '.join(parts)}, {duration_text(table.warp_time, table.unit)}{unit} of warp time"
