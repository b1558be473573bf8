"""Answers of a profile that are shown as they are: limits, and the parts of the time."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.profiles import Profile
from viewer.cells import fit
from viewer.grid import Column, grid, heading
from viewer.outlet import Row
from viewer.units import printable, share_text

__all__ = ["answer_rows", "render_breakdown", "render_limits"]


def answer_rows(profile: Profile, name: str, shown: Collection[str]) -> list[Row]:
    """The rows of the question of this name, missing values as None; none where it is not to be shown."""
    if name not in shown:
        return []
    table: pd.DataFrame = getattr(profile, name)()
    rows: list[Any] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def render_breakdown(rows: Sequence[Row], width: int, most: int) -> list[Text]:
    """A table of each configuration: the parts of its time, which add up to all of it, the largest first."""
    columns = [
        Column("part", "name"),
        Column("reason", "name"),
        Column("line", "path"),
        Column("share"),
        Column("from", "name", 1),
    ]
    lines: list[Text] = []
    for title, own in _by_configuration(rows).items():
        ordered = sorted(own, key=lambda row: -row["share"])
        cells = [
            [row["part"], row["reason"], _place(row), share_text(row["share"]), row["basis"]]
            for row in ordered[: most or None]
        ]
        lines += [Text(), *heading("breakdown", [title], width), *_table(columns, cells, width)]
        lines += _left_out(len(ordered) - len(cells))
    return lines


def render_limits(rows: Sequence[Row], width: int) -> list[Text]:
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
    for title, own in _by_configuration(rows).items():
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


def _by_configuration(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By kernel, with the configuration where it has several, its rows."""
    several = {row["kernel"] for row in rows if row["variant"]}
    parts: dict[str, list[Row]] = {}
    for row in rows:
        label = f" #{row['variant']}" if row["kernel"] in several else ""
        parts.setdefault(printable(str(row["kernel"])) + label, []).append(row)
    return parts


def _table(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[Text]:
    plain = [[printable(str(text or "")) for text in row] for row in cells]
    return grid(columns, plain, [""] * len(plain), width)


def _left_out(count: int) -> list[Text]:
    return [Text(fit(f"{count} more; --top 0 shows all", 80), style="dim")] if count > 0 else []


def _place(row: Row) -> str:
    file = str(row["file"]).replace("\\", "/").rpartition("/")[2]
    return f"{file}:{row['line']}" if row["line"] else ""


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"
