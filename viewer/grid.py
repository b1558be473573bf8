"""Lay rows of text out in columns: numbers are never cut, names and paths give way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from viewer.cells import fit, fit_end, pad

__all__ = ["Column", "grid"]


@dataclass(frozen=True)
class Column:
    """A column's head, and what it holds: a "number" keeps its width, a "name" is cut at its end, a "path" at
    its start."""

    head: str
    holds: Literal["name", "path", "number"] = "number"


LEAST_WIDTH = 10
"""Names and paths are not cut below this; then lines grow beyond the width instead."""


def grid(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str], width: int
) -> list[Text]:
    """Lines of a table with its head, in `width` cells when that is enough; `styles` has one per row."""
    head = [column.head for column in columns]
    widths = [max(cell_len(row[at]) for row in [head, *rows]) for at in range(len(columns))]
    # The widest column that can give way does, cell by cell.
    while sum(widths) + len(widths) - 1 > width:
        room = [size if column.holds != "number" else 0 for column, size in zip(columns, widths, strict=True)]
        widest = max(range(len(room)), key=room.__getitem__)
        if room[widest] <= LEAST_WIDTH:
            break
        widths[widest] -= 1
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= width else " "
    lines = []
    for row, style in [(head, "dim"), *zip(rows, styles, strict=True)]:
        cells = [_cell(text, column, size) for text, column, size in zip(row, columns, widths, strict=True)]
        lines.append(Text(gap.join(cells).rstrip(), style=style))
    return lines


def _cell(text: str, column: Column, width: int) -> str:
    if column.holds == "number":
        return pad(text, width, right=True)
    return pad(fit(text, width) if column.holds == "name" else fit_end(text, width), width)
