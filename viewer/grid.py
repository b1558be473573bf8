"""Lay rows of text out in columns: numbers are never cut, names and paths give way, columns are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from viewer.cells import fit, fit_end, fit_middle, pad, wrap

__all__ = ["Column", "grid", "heading"]

COMFORTABLE_WIDTH = 16
"""Rather than cut names and paths below this, columns are left out."""

LEAST_WIDTH = 10
"""Names and paths are never cut below this; then lines grow beyond the width instead."""


@dataclass(frozen=True)
class Column:
    """A column's head, and what it holds: a "number" keeps its width, a "name" is cut at its end, a "path" at
    its start, a "kernel" at its end or, where kernels would look the same then, in its middle. Where lines
    are too short the column of the highest `spare` is left out first, of 0 never."""

    head: str
    holds: Literal["name", "kernel", "path", "number"] = "number"
    spare: int = 0


def grid(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str], width: int
) -> list[Text]:
    """Lines of a table with its head, in `width` cells when that is enough; `styles` has one per row."""
    natural = [
        max(cell_len(text) for text in (column.head, *(row[at] for row in rows)))
        for at, column in enumerate(columns)
    ]
    shown = _shown(columns, natural, width)
    columns, widths = [columns[at] for at in shown], [natural[at] for at in shown]
    # The widest column that can give way does, cell by cell.
    while sum(widths) + len(widths) - 1 > width:
        room = [size if column.holds != "number" else 0 for column, size in zip(columns, widths, strict=True)]
        widest = max(range(len(room)), key=room.__getitem__)
        if room[widest] <= LEAST_WIDTH:
            break
        widths[widest] -= 1
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= width else " "
    lines = [Text(_line([column.head for column in columns], columns, widths, gap), style="dim")]
    cut = [
        _apart([row[at] for row in rows], size) if column.holds == "kernel" else [row[at] for row in rows]
        for at, column, size in zip(shown, columns, widths, strict=True)
    ]
    for row, style in enumerate(styles):
        lines.append(Text(_line([cells[row] for cells in cut], columns, widths, gap), style=style))
    return lines


def _apart(names: Sequence[str], width: int) -> list[str]:
    """Names cut to a width, so that those that differ look different if that can be."""
    cut = [fit(name, width) for name in names]
    return cut if len({*cut}) == len({*names}) else [fit_middle(name, width) for name in names]


def _shown(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The columns that there is room for, by their numbers."""
    shown = list(range(len(columns)))
    while True:
        least = [
            natural[at] if columns[at].holds == "number" else min(natural[at], COMFORTABLE_WIDTH)
            for at in shown
        ]
        first = max(shown, key=lambda at: columns[at].spare)
        if sum(least) + len(least) - 1 <= width or not columns[first].spare:
            return shown
        shown.remove(first)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], gap: str) -> str:
    padded = [_cell(text, column, size) for text, column, size in zip(cells, columns, widths, strict=True)]
    return gap.join(padded).rstrip()


def _cell(text: str, column: Column, width: int) -> str:
    if column.holds == "number":
        return pad(text, width, right=True)
    return pad(fit_end(text, width) if column.holds == "path" else fit(text, width), width)


def heading(name: str, parts: Sequence[str], width: int) -> list[Text]:
    """A table's or a drawing's title: the name, and behind it or, indented, below it what is said of it."""
    title = fit(name, width)
    beside = wrap(parts, width - cell_len(title) - 2, ", ") if width - cell_len(title) > 2 else []
    if len(beside) == 1:
        return [Text.assemble((title, "bold"), "  ", (beside[0], "dim"))]
    return [
        Text(title, style="bold"),
        *(Text(f"  {line}", style="dim") for line in wrap(parts, width - 2, ", ")),
    ]
