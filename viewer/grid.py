"""Text measured in terminal cells (a Chinese character takes two, an accent none), and tables of it.

In a table numbers are never cut, names and paths give way, columns are left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from profscope.analysis.texts import before_number
from profscope.viewer.units import printable

__all__ = ["Column", "fit", "fit_end", "fit_middle", "grid", "heading", "pad", "words", "wrap"]


COMFORTABLE_WIDTH = 16
"""Rather than cut names and paths below this, columns are left out."""

LEAST_WIDTH = 10
"""Names and paths are never cut below this; then lines grow beyond the width instead."""


def fit(text: str, width: int) -> str:
    """Text cut to a width in terminal cells, with an ellipsis at the cut, never inside a number."""
    return text if cell_len(text) <= width else before_number(set_cell_size(text, max(width - 1, 0))) + "…"


def fit_end(text: str, width: int) -> str:
    """Text cut at its start to a width in terminal cells: of a path the end says most."""
    while cell_len(text) > width:
        text = "…" + text.lstrip("…")[1:]
    return text


def fit_middle(text: str, width: int) -> str:
    """Text cut in its middle to a width in terminal cells: of names that are alike both ends tell."""
    if cell_len(text) <= width:
        return text
    head = set_cell_size(text, width // 2)
    return head + fit_end("…" + text[len(head.rstrip()) :], width - cell_len(head))


def pad(text: str, width: int, right: bool = False) -> str:
    """Text padded to a width in terminal cells."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def words(text: str) -> list[str]:
    """Those of a text, as `wrap` takes them; "62 %" is one."""
    return re.split(r" +(?!%)", printable(text).strip())


def wrap(parts: Sequence[str], width: int, separator: str = " ") -> list[str]:
    """Parts joined to lines of at most `width` cells; lines end between parts or inside a longer one."""
    mark = separator.rstrip()
    gap = separator[len(mark) :]
    if not parts:
        return []
    *before, last = parts
    lines = [""]
    for part in [*(text + mark for text in before), last]:
        joined = f"{lines[-1]}{gap}{part}" if lines[-1] else part
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = list(_pieces(part, width))
        lines = [*lines, *pieces] if lines[-1] else pieces
    return lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """A text cut into pieces of at most `width` cells; of one character at least."""
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or (cell_len(text[begin : end + 1]) > width and end > begin):
            yield text[begin:end]
            begin = end


@dataclass(frozen=True)
class Column:
    """A column's head, and what it holds: a "number" keeps its width, a "name" is cut at its end, a "path" at
    its start, a "kernel" at its end or in its middle, if kernels would look the same otherwise. If lines are
    too short, the column of the highest `spare` is left out first, one of 0 never."""

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
    """A table's or a drawing's title: the name, and the remark behind it or, indented, below it."""
    title = fit(name, width)
    one_line = wrap(parts, width - cell_len(title) - 2, ", ") if width - cell_len(title) > 2 else []
    if len(one_line) == 1:
        return [Text.assemble((title, "bold"), "  ", (one_line[0], "dim"))]
    return [
        Text(title, style="bold"),
        *(Text(f"  {line}", style="dim") for line in wrap(parts, width - 2, ", ")),
    ]
