"""Rows of figures, their JSON, and the table that is printed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

__all__ = ["Cell", "Row", "render", "row_from_json", "row_to_json"]

_WIDTH: Final = 25


@dataclass(frozen=True)
class Cell:
    """Samples of one figure; or none, and why. note: what a reader must know beside it."""

    samples: tuple[float, ...] = ()
    error: str = ""
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One line of a group's table: a case, and a cell for each way to run it.

    baseline: the column that the others are shown as ratios to, sample by sample.
    """

    group: str
    name: str
    unit: str
    cells: dict[str, Cell]
    baseline: str = ""
    about: dict[str, Any] = field(default_factory=dict)


def row_to_json(row: Row) -> dict[str, Any]:
    return asdict(row)


def row_from_json(found: dict[str, Any]) -> Row:
    cells = {
        name: Cell(tuple(cell["samples"]), cell["error"], cell["note"])
        for name, cell in found["cells"].items()
    }
    return Row(**{**found, "cells": cells})


def render(rows: Iterable[Row]) -> str:
    """All groups, in the order of their first rows; medians, and quartiles where there are samples enough."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.group}, {row.unit}" if row.unit else row.group, []).append(row)
    return "\n".join(_group(title, members) for title, members in groups.items())


def _group(title: str, rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(itertools.chain.from_iterable(row.cells for row in rows)))
    remarks: list[str] = []
    lines = [[title, *columns]]
    lines += [[row.name, *(_shown(row, column, remarks) for column in columns)] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([*text, *(f"  ({i}) {remark}" for i, remark in enumerate(remarks, 1)), ""])


def _shown(row: Row, column: str, remarks: list[str]) -> str:
    cell = row.cells.get(column)
    if cell is None:
        return ""
    relative = bool(row.baseline) and column != row.baseline
    samples = _ratios(row, column) if relative else cell.samples
    text = _figure(samples, ratio=relative) if samples else "-"
    remark = cell.error or cell.note
    if remark:
        if remark not in remarks:
            remarks.append(remark)
        text += f" ({remarks.index(remark) + 1})"
    return text


def _figure(samples: Sequence[float], *, ratio: bool) -> str:
    def one(value: float) -> str:
        if ratio:
            return f"{value:.3f}"
        if value == int(value):
            return f"{value:.0f}"
        return f"{value:.{max(0, 2 - int(math.log10(abs(value)))) if abs(value) >= 1 else 2}f}"

    middle = one(statistics.median(samples))
    if len(samples) < 3:
        return middle
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return f"{middle} [{one(low)} {one(high)}]"


def _ratios(row: Row, column: str) -> tuple[float, ...]:
    """To the baseline, round by round; a way to run it that failed in one has fewer of them."""
    base = row.cells.get(row.baseline, Cell()).samples
    return tuple(a / b for a, b in zip(row.cells.get(column, Cell()).samples, base, strict=False))
