"""Tables of a profile that are shown as they are: limits, the parts of the time, and experiments."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.experiments import TEXT_ROWS, experiments_text
from profscope.analysis.model.entries import KernelEntry
from profscope.profiles import Profile
from profscope.schema import EXPERIMENT_DTYPES, measured_frame
from profscope.viewer.grid import Column, grid, heading
from profscope.viewer.outlet import Row
from profscope.viewer.units import count_text, printable, share_text, source_text

__all__ = ["answer_rows", "render_breakdown", "render_experiments", "render_limits"]


def answer_rows(profile: Profile, name: str, shown: Collection[str]) -> list[Row]:
    """The rows of the question or table of this name, missing values as None; none where it is not to be
    shown."""
    if name not in shown:
        return []
    table: pd.DataFrame = profile.experiments if name == "experiments" else getattr(profile, name)()
    rows: list[Any] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def render_breakdown(
    rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int, most: int
) -> list[Text]:
    """A table of each configuration: the parts of its time, which add up to all of it, the largest first."""
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


def render_limits(
    rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int, *, emulated: bool
) -> list[Text]:
    """A table of each configuration: how much of each resource it uses. The emulator has not all of them."""
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
                row["basis"] or "not modelled" * emulated,
            ]
            for row in own
        ]
        lines += [Text(), *heading("limits", [title], width), *_table(columns, cells, width)]
    return lines


def render_experiments(
    rows: Sequence[Row], kernels: Sequence[KernelEntry], width: int, most: int | None
) -> list[Text]:
    """What the parts of each configuration cost, the most first. most: rows of each, 0: all; None: those that
    tell."""
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
