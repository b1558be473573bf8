"""Tables of a profile as terminal text: scopes, their tree, and the rows of questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.experiments import TEXT_ROWS, experiments_text
from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.model.labels import differs_text, named, told_apart
from profscope.analysis.scopes.table import STATISTICS, KernelTable
from profscope.analysis.scopes.tree import Node, ScopeTree
from profscope.profiles import Profile
from profscope.schema import EXPERIMENT_DTYPES, measured_frame
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import Column, fit, grid, heading, wrap
from profscope.viewer.outlet import Row
from profscope.viewer.units import (
    NO_TIME,
    count_text,
    duration_text,
    printable,
    rate_text,
    share_text,
    source_text,
)

__all__ = [
    "answer_rows",
    "render_breakdown",
    "render_experiments",
    "render_heading",
    "render_limits",
    "render_table",
    "render_tree",
    "render_uncovered",
]

_RATES = {"gb_per_s_at_most": "≤ GB/s", "tflop_per_s": "TFLOP/s"}

_LOADS = {"issue": "spans on loads end at their issue", "data": "spans on loads end with their data"}

_SPARE = {"mean": 3, "p50": 6, "p90": 7, "p99": 5, "max": 4}
"""The statistics behind the share, and which of them short lines leave out first: see `Column`."""


def render_table(table: KernelTable, width: int, said: Sequence[str] = ()) -> list[Text]:
    """The table's lines, the first a title. said: of all times in it, in the title."""
    rates = [name for name in _RATES if any(getattr(row, name) is not None for row in table.rows)]
    columns = [Column("scope", "name"), Column("line", spare=1), Column("count"), Column("total", spare=2)]
    columns += [
        Column("self"),
        Column("self %"),
        *(Column(name, spare=spare) for name, spare in _SPARE.items()),
    ]
    columns += [Column(_RATES[name], spare=8) for name in rates]
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
    """The kernel, its numbers of launches, CTAs and warps, and their time; the remark `said`; and the end of
    spans on its loads."""
    ends = {row.measures for row in table.rows if row.kind == "op" and row.scope.startswith("load ")}
    loads = [text for measures, text in _LOADS.items() if measures in ends]
    return heading(printable(table.name), [*_title(table), *said, *loads], width)


def render_uncovered(table: KernelTable, width: int, *, with_advice: bool = True) -> list[Text]:
    """How much of the time no op's span covers, if that is much, and what would show more."""
    if not table.advice:
        return []
    advice = f"; {in_flags(table.advice)}" if with_advice else ""
    note = f"{share_text(table.uncovered)} of the warp time is in no op's span{advice}."
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


def render_tree(tree: ScopeTree, width: int) -> list[Text]:
    """The tree's lines: scope, source, count, total, its share of warp time, mean, source text."""
    rows = []
    apart = told_apart([((node.scope, node.file, node.line), node.call_path) for node in tree.nodes])
    for at, node in enumerate(tree.nodes):
        source = source_text(node.file, node.line)
        label = "" if node.depth else tree.label
        name = f"{_branch(tree.nodes, at)}{printable(named(node.scope + apart[at], label))}"
        figures = [
            duration_text(node.total, tree.unit),
            share_text(node.share),
            duration_text(node.mean, tree.unit),
        ]
        rows.append([name, source, count_text(node.count), *figures, printable(node.text)])
    styles = ["bold" if node.depth == 0 else "dim" if (node.share or 0) < 0.01 else "" for node in tree.nodes]
    columns = [Column("scope", "name"), Column("source", "path", spare=1), Column("count"), Column("total")]
    columns += [Column("total %"), Column("mean", spare=2), Column("", "name", spare=3)]
    lines = grid(columns, rows, styles, width)
    if any(not node.total and node.kind != "mark" for node in tree.nodes):
        lines.append(Text(fit(NO_TIME, width), style="dim"))
    if tree.omitted:
        lines.append(Text(f"{tree.omitted} more scopes with less time; --top 0 shows them", style="dim"))
    return lines


def _branch(nodes: list[Node], at: int) -> str:
    depth = nodes[at].depth
    if depth == 0:
        return ""
    marks = ["└ " if _is_last(nodes, at) else "├ "]
    for level in range(depth - 1, 0, -1):
        above = next(index for index in range(at, -1, -1) if nodes[index].depth == level)
        marks.append("  " if _is_last(nodes, above) else "│ ")
    return "".join(reversed(marks))


def _is_last(nodes: list[Node], at: int) -> bool:
    for node in nodes[at + 1 :]:
        if node.depth <= nodes[at].depth:
            return node.depth < nodes[at].depth
    return True


def answer_rows(profile: Profile, name: str, shown: Collection[str]) -> list[Row]:
    """The rows of the question or table of this name, missing values as None; none if it is not to be
    shown."""
    if name not in shown:
        return []
    answer = getattr(profile, name)
    table: pd.DataFrame = answer() if callable(answer) else answer  # those that are tables are no questions
    rows: list[Any] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def render_breakdown(
    rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int, most: int
) -> list[Text]:
    """A table of each configuration: the parts of its time, the largest first; they add up to all of it."""
    columns = [
        Column("part", "name"),
        Column("reason", "name"),
        Column("line", "path"),
        Column("share"),
        Column("from", "name", 1),
    ]
    lines: list[Text] = []
    for title, own in _by_configuration(rows, kernels).items():
        ordered = sorted(own, key=lambda row: -row["share"])
        cells = [
            [
                row["part"],
                row["reason"],
                source_text(row["file"], row["line"]),
                share_text(row["share"]),
                row["basis"],
            ]
            for row in ordered[: most or None]
        ]
        lines += [Text(), *heading("breakdown", [title], width), *_table(columns, cells, width)]
        lines += _left_out(len(ordered) - len(cells))
    return lines


def render_limits(rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int) -> list[Text]:
    """A table of each configuration: how much of each resource it uses."""
    columns = [
        Column("resource", "name"),
        Column("used"),
        Column("peak"),
        Column("unit", "name"),
        Column("% of peak"),
        Column("from", "name", 1),
    ]
    lines: list[Text] = []
    for title, own in _by_configuration(rows, kernels).items():
        cells = [
            [
                row["resource"],
                _number(row["used"]),
                _number(row["peak"]),
                row["unit"],
                _number(row["peak_pct"]),
                row["basis"],
            ]
            for row in own
        ]
        lines += [Text(), *heading("limits", [title], width), *_table(columns, cells, width)]
    return lines


def render_experiments(
    rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int, most: int | None
) -> list[Text]:
    """The costs of each configuration's parts, the largest first. most: rows of each, 0: all; None: those
    that tell."""
    lines: list[Text] = []
    shown = TEXT_ROWS if most is None else most
    for title, own in _by_configuration(rows, kernels).items():
        table = measured_frame(
            "experiments", {name: [row[name] for row in own] for name in EXPERIMENT_DTYPES}
        )
        lines += [Text(), *heading("experiments", [title], width)]
        lines += map(Text, map(printable, experiments_text(table, shown, width, "--top 0 shows all")))
    return lines


def _by_configuration(rows: Sequence[Row], kernels: Sequence[KernelEntry]) -> dict[str, list[Row]]:
    """By the name of each kernel, as the model has it, its rows. A kernel that ran bare is not in the
    model."""
    names = {(entry.kernel, entry.variant): entry.name for entry in kernels}
    parts: dict[str, list[Row]] = {}
    for row in rows:
        name = names.get((row["kernel"], row["variant"]), str(row["kernel"]))
        parts.setdefault(printable(name), []).append(row)
    return parts


def _table(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[Text]:
    plain = [[printable(str(text or "")) for text in row] for row in cells]
    return grid(columns, plain, [""] * len(plain), width)


def _left_out(count: int) -> list[Text]:
    return [Text(f"{count_text(count, 'more part')}; --top 0 shows them", style="dim")] if count > 0 else []


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"
