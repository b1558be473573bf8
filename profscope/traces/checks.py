"""Checks of a profile's tables: they follow the schema, and files can hold them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pandas as pd

from profscope.schema import (
    CORRECTED_DTYPES,
    EVENT_DTYPES,
    HOST_DTYPES,
    LAUNCH_DTYPES,
    MEASURED_DTYPES,
    MODEL_DTYPES,
    PAYLOAD_DTYPES,
    SPAN_DTYPES,
    Tables,
)

__all__ = ["column_problems", "misfit"]


LONGEST_NS = (1 << 63) - 1
"""292 years: what int64 can tell apart."""


def misfit(tables: Tables) -> str | None:
    """What no trace file can hold, in a few words: times too far to count with, text that is no Unicode.

    None for tables that fit. Takes about a millisecond a million rows.
    """
    return _far_time(tables) or _odd_text(tables)


def _far_time(tables: Tables) -> str | None:
    starts, durations = (tables.df[name].to_numpy() for name in ("start_ns", "duration_ns"))
    if int(durations.min(initial=0)) < 0:
        return f"a duration_ns of {durations.min()}"
    times = [starts, *(tables.launches[name].to_numpy() for name in ("start_ns", "end_ns"))]
    least = min(int(each.min(initial=0)) for each in times)
    last_end = int(starts.max(initial=0)) + int(durations.max(initial=0))  # or later
    most = max(last_end, *(int(each.max(initial=0)) for each in times))
    if most > LONGEST_NS or most - least > LONGEST_NS:
        return f"times from {least} to {most} ns, more than 292 years"
    return None


def _odd_text(tables: Tables) -> str | None:
    for name, texts in _texts(tables):
        try:
            "".join(text for text in texts if isinstance(text, str)).encode()
        except UnicodeEncodeError:
            return f"a {name} with a lone surrogate, which UTF-8 cannot spell"
    return None


def _texts(tables: Tables) -> Iterator[tuple[str, list[str]]]:
    """The columns of text of all tables, each with its distinct values."""
    for each in fields(Tables):
        table = getattr(tables, each.name)
        if not isinstance(table, pd.DataFrame):
            continue
        for name, dtype in table.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype):
                yield str(name), list(dtype.categories)
            elif dtype.kind == "O":
                yield str(name), table[name].unique().tolist()


def column_problems(tables: Tables) -> list[str]:
    """The problems of form alone: columns, dtypes, missing values, metadata that is not JSON."""
    return [
        *_columns(
            "df", tables.df.drop(columns=[*CORRECTED_DTYPES, *MODEL_DTYPES], errors="ignore"), SPAN_DTYPES
        ),
        *_columns("launches", tables.launches, LAUNCH_DTYPES),
        *(
            problem
            for name, dtypes in MEASURED_DTYPES.items()
            for problem in _columns(name, getattr(tables, name), dtypes)
        ),
        *_columns("host", tables.host, HOST_DTYPES),
        *_columns("events", tables.events, EVENT_DTYPES),
        *_metadata(tables.metadata),
    ]


def _columns(table: str, frame: pd.DataFrame, dtypes: dict[str, str]) -> Iterator[str]:
    known = dict(zip(frame.columns, frame.dtypes, strict=True))
    for name in sorted(known.keys() - dtypes.keys(), key=str):
        kinds = {"df": PAYLOAD_DTYPES, "host": ("float64",)}.get(table, ())
        if str(known[name]) not in kinds:
            yield f"{table}: unknown column {name!r}"
    for name, dtype in dtypes.items():
        is_text = dtype in ("category", "str")
        if name not in known:
            yield f"{table}: no column {name!r}"
        elif not (_fits(frame[name], dtype) if is_text else str(known[name]) == dtype):
            yield f"{table}: column {name!r} is {known[name]}, not {dtype}"
        elif is_text and frame[name].isna().any():
            yield f"{table}: column {name!r} has missing values"
    if not isinstance(frame.index, pd.RangeIndex) or (len(frame) and frame.index[0] != 0):
        yield f"{table}: the index must be a RangeIndex from 0"


def _fits(column: pd.Series[Any], dtype: str) -> bool:
    """Whether it holds text and nothing else. dtype: "category" or "str"."""
    if dtype == "category":
        return isinstance(column.dtype, pd.CategoricalDtype) and all(
            isinstance(c, str) for c in column.cat.categories
        )
    return column.dtype in ("str", "object") and all(isinstance(text, str) for text in column)


def _metadata(metadata: dict[str, Any]) -> Iterator[str]:
    try:
        json.dumps(metadata)
    except (TypeError, ValueError) as error:
        yield f"metadata: not plain JSON data: {error}"
