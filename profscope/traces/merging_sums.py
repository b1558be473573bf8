"""Sums and numbers of several parts, added up site by site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from profscope.schema import NUMBER_DTYPES, SUM_DTYPES, numbers_frame, sums_frame

__all__ = ["merged_numbers", "merged_sums"]

_PLACE: Final = ("kernel", "variant", "trial", "scope", "kind", "file", "line", "call_path")
_ADDED: Final = (
    "launches", "warps", "count", "total_cycles", "total_ns", "grid_count", "grid_cycles", "grid_ns",
)  # fmt: skip
_LONGEST: Final = ("longest_cycles", "longest_ns")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def merged_sums(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of sums as one. A site is the same where its place is and its parents' are; of several at one
    place below one parent, which a loop of constant length makes, the first is the first."""
    rows: list[dict[str, Any]] = []
    numbers: dict[tuple[Any, ...], int] = {}
    for table in tables:
        own: list[int] = []  # by row of this table, the row in the whole
        met: dict[tuple[Any, ...], int] = {}
        for row in _records(table):
            parent = own[row["parent"]] if row["parent"] >= 0 else -1
            place = *(row[name] for name in _PLACE), parent
            met[place] = met.get(place, 0) + 1
            key = *place, met[place]
            if key not in numbers:
                numbers[key] = len(rows)
                rows.append(row | {"parent": parent})
            else:
                _add(rows[numbers[key]], row)
            own.append(numbers[key])
    return _in_groups(rows)


def _add(row: dict[str, Any], other: dict[str, Any]) -> None:
    for name in _ADDED:
        row[name] += other[name]
    for name in _LONGEST:  # -1: not kept
        row[name] = max(row[name], other[name]) if min(row[name], other[name]) >= 0 else -1


def _in_groups(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """As a table: those of one kernel, variant and trial stand together, and below their parents."""
    groups: dict[tuple[Any, ...], None] = dict.fromkeys(
        (row["kernel"], row["variant"], row["trial"]) for row in rows
    )
    places = {group: place for place, group in enumerate(groups)}
    order = sorted(
        range(len(rows)), key=lambda at: places[rows[at]["kernel"], rows[at]["variant"], rows[at]["trial"]]
    )
    new = {at: place for place, at in enumerate(order)}
    sorted_rows = [rows[at] | {"parent": new.get(rows[at]["parent"], -1)} for at in order]
    return sums_frame({name: [row[name] for row in sorted_rows] for name in SUM_DTYPES})


def merged_numbers(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of numbers as one."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for table in tables:
        met: dict[tuple[Any, ...], int] = {}
        for row in _records(table):
            place = *(row[name] for name in _PLACE), row["name"]
            met[place] = met.get(place, 0) + 1
            known = rows.setdefault((*place, met[place]), row)
            if known is not row:
                _add_numbers(known, row)
    return numbers_frame({name: [row[name] for row in rows.values()] for name in NUMBER_DTYPES})


def _add_numbers(row: dict[str, Any], other: dict[str, Any]) -> None:
    for name in ("launches", "nans"):
        row[name] += other[name]
    if other["count"] and not row["count"]:
        row.update({name: other[name] for name in ("count", "total", "mean", "least", "greatest")})
    elif other["count"]:
        row["count"] += other["count"]
        row["total"] += other["total"]
        row["mean"] = row["total"] / row["count"]
        row["least"] = min(row["least"], other["least"])
        row["greatest"] = max(row["greatest"], other["greatest"])
