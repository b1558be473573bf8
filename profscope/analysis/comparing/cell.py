"""A comparison in a cell of a notebook: the text of `profscope diff`, with its tables, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd

from profscope.analysis.comparing.differences import program_text, row_texts
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import COMPARED, heading_text
from profscope.analysis.texts import Child, Markup, tag

__all__ = ["comparison_html", "has_columns"]

_MOST_ROWS: Final = 20
"""Rows of a kernel."""
_HEADS: Final = ("scope", "line", "A", "B", "change", "%", "least", "most", "count", "")
_NEEDED: Final = (
    *COMPARED, "scope", "kind", "line_a", "line_b", "status", "significant", "change", "percent", "low",
    "high", "self_a", "self_b", "total_a", "total_b", "count_a", "count_b",
)  # fmt: skip
_EMULATED: Final = "EMULATED: cycles of a cost model, not GPU time"


def has_columns(table: pd.DataFrame) -> bool:
    """Whether the table has all columns that the text needs."""
    return set(_NEEDED) <= set(table.columns) and "program" in table.attrs


def comparison_html(table: pd.DataFrame, launches: Iterable[str]) -> Markup:
    """Time, notes, then each kernel's launch and its rows.

    table: of `profscope.diff`; launches: the sentence on each kernel's launches, in the order of `table`.
    """
    attrs, unit = table.attrs, table.attrs["unit"]
    facts = [_EMULATED] if attrs["emulated"] else []
    facts += [f"Time: {program_text(attrs['program'], unit)}"]
    facts += [f"Note: {note}" for note in attrs["notes"]]
    facts += [f"Untested: {missing}" for missing in attrs["not_measured"]]
    shown: list[Child] = [tag("p", fact) for fact in facts]
    sentences = iter(launches)
    for _, group in table.groupby(list(COMPARED), sort=False, dropna=False):
        rows = group.to_dict("records")
        first = rows[0]
        if first["kind"] == LAUNCH:
            sentence = next(sentences)
            rows = rows[1:]
        else:
            heading = heading_text(first["kernel"], first["configuration"], first["differs"])
            sentence = f"{heading}: the times of its launches are not known"
        shown.append(tag("p", tag("b", sentence)))
        if rows:
            shown.append(_table(rows[:_MOST_ROWS], unit))
        if len(rows) > _MOST_ROWS:
            shown.append(tag("p", f"{len(rows) - _MOST_ROWS} more rows"))
    return tag("div", *shown)


def _table(rows: Iterable[Mapping[Any, Any]], unit: str) -> Markup:
    heads = tag("tr", *(tag("th", head, scope="col") for head in _HEADS))
    cells = (tag("tr", *(tag("td", text) for text in (row["scope"], *row_texts(row, unit)))) for row in rows)
    return tag("table", tag("thead", heads), tag("tbody", *cells))
