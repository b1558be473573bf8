"""The numbers: what launches that kept sums say of a kernel's payloads, in program order."""

import math
from dataclasses import dataclass

import pandas as pd
from rich.text import Text

from profscope.profiles import Profile
from viewer.grid import Column, grid, heading
from viewer.groups import Group
from viewer.paths import told_apart
from viewer.units import count_text, printable

__all__ = ["NumberRow", "NumberTable", "make_numbers", "render_numbers"]


@dataclass(frozen=True)
class NumberRow:
    """One payload of one site. mean, least, greatest: None where there is no number, or the mean is none; an
    infinite one is the text "inf" or "-inf", for JSON has none."""

    scope: str
    line: int
    call_path: str
    name: str
    count: int
    nans: int
    mean: float | str | None
    least: float | str | None
    greatest: float | str | None


@dataclass(frozen=True, kw_only=True)
class NumberTable(Group):
    """The payloads of a group's launches that kept sums; `omitted` rows were left out."""

    launches: int
    rows: list[NumberRow]
    omitted: int


def make_numbers(profile: Profile, group: Group, top: int) -> NumberTable:
    """The first `top` rows (0: all) of those that ever ran; none where no launch of the group has any."""
    numbers = profile.numbers
    is_own = (numbers["kernel"] == group.kernel) & (numbers["variant"] == group.variant)
    own = numbers[is_own & (numbers["trial"] == group.trial) & (numbers["count"] + numbers["nans"] > 0)]
    return NumberTable(
        **group.identity,
        launches=int(own["launches"].max()) if len(own) else 0,
        rows=_rows(own.head(top or len(own))),
        omitted=max(len(own) - top, 0) if top else 0,
    )


def _rows(numbers: pd.DataFrame) -> list[NumberRow]:
    return [
        NumberRow(
            scope=row["scope"],
            line=row["line"],
            call_path=row["call_path"],
            name=row["name"],
            count=row["count"],
            nans=row["nans"],
            mean=_plain(row["mean"]),
            least=_plain(row["least"]),
            greatest=_plain(row["greatest"]),
        )
        for row in numbers.to_dict("records")
    ]


def _plain(value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def render_numbers(table: NumberTable, width: int) -> list[Text]:
    """The table's lines, the first a title."""
    columns = [Column("scope", "name"), Column("line", spare=1), Column("number", "name"), Column("count")]
    columns += [Column("mean", spare=3), Column("least"), Column("greatest"), Column("NaNs", spare=2)]
    apart = told_apart([((row.scope, row.line, row.name), row.call_path) for row in table.rows])
    rows = []
    for row, path in zip(table.rows, apart, strict=True):
        place = [printable(row.scope + path), str(row.line or ""), printable(row.name)]
        figures = [_text(each) for each in (row.mean, row.least, row.greatest)]
        rows.append([*place, count_text(row.count), *figures, count_text(row.nans)])
    launches = f"{count_text(table.launches)} launch{'es' * (table.launches != 1)} that kept sums"
    lines = [
        *heading(table.heading, ["numbers", launches], width),
        *grid(columns, rows, [""] * len(rows), width),
    ]
    if table.omitted:
        lines.append(Text(f"{table.omitted} more numbers; --top 0 shows them", style="dim"))
    return lines


def _text(value: float | str | None) -> str:
    """Whole numbers of up to six digits as they are, others with four."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.4g}"
