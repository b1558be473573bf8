"""What a profile's tables must be: of the schema, and without what no file can hold or analysis can use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import (
    CORRECTED_DTYPES,
    EVENT_DTYPES,
    EVENT_KINDS,
    HOST_DTYPES,
    KINDS,
    LAUNCH_DTYPES,
    MEASURED_DTYPES,
    MODEL_DTYPES,
    PAYLOAD_DTYPES,
    SPAN_DTYPES,
    Tables,
)

__all__ = ["column_problems", "misfit", "unsound"]

_PIECE_ROWS = 1 << 16
_MOST = {"sm": 1 << 16, "warp": 1 << 16, "depth": 1 << 16, "variant": 1 << 20, "device": 1 << 16}
"""Numbers that tables are made of, one place each, are less than that."""

_LEAST = {"iteration": -1, "device": -1, "stream": None, "thread": None, "start_cycle": None, "bytes": -1}
"""Other integers are 0 or more; None: they may be anything."""

_MAY_LACK = (
    "graph", "replay", "rank", "host", "parent", "wait", "launch", "cta", "sm", "warp", "blamed_pc",
)  # fmt: skip
"""-1 where there is none."""


def unsound(tables: Tables) -> str | None:
    """What is wrong with the tables of a file, in a few words; None for those that can be worked with.

    It takes some 10 ms a million spans.
    """
    return next(_problems(tables), None)


def _problems(tables: Tables) -> Iterator[str]:
    for name in ("df", "launches", "ctas", *MEASURED_DTYPES, "host", "events"):
        table, what = getattr(tables, name), "spans" if name == "df" else name
        yield from _odd_texts(table, what)
        yield from _odd_numbers(table, what)
    yield from _rows_of(tables.df, "wait", len(tables.df), "spans")
    for table in ("launches", "events"):
        yield from _rows_of(getattr(tables, table), "host", len(tables.host), table)
    for name, table in (("spans", tables.df), ("host", tables.host)):
        yield from _earlier(table["parent"].to_numpy(), name)
    yield from _rows_of(tables.events, "parent", len(tables.events), "events")
    yield from _no_circle(tables.events["parent"].to_numpy(np.int64))
    yield from _launches(tables)


def _launches(tables: Tables) -> Iterator[str]:
    launch = tables.launches["launch"]
    if launch.duplicated().any():
        yield f"launch {launch[launch.duplicated()].iloc[0]} twice"
    of_spans = tables.df["launch"].to_numpy()
    begins = np.flatnonzero(np.diff(of_spans, prepend=of_spans[:1] - 1))
    unknown = ~np.isin(of_spans[begins], launch.to_numpy())
    if unknown.any():
        yield f"spans of launch {of_spans[begins][unknown][0]}, which is not in its table of launches"


def _odd_texts(table: pd.DataFrame, what: str) -> Iterator[str]:
    """Categories are texts, and every row has one; a payload's may lack."""
    for name, dtype in table.dtypes.items():
        if not isinstance(dtype, pd.CategoricalDtype):
            if dtype in ("str", "object") and not all(isinstance(value, str) for value in table[name]):
                yield f"{what} with a {name} that is no text or no number"
            continue
        if not all(isinstance(value, str) for value in dtype.categories):
            yield f"{what} whose {name} is no text"
        if name in SPAN_DTYPES and int(table[name].cat.codes.to_numpy().min(initial=0)) < 0:
            yield f"{what} without a {name}"
    if "kind" in table and isinstance(table["kind"].dtype, pd.CategoricalDtype):
        known = {*(EVENT_KINDS if what == "events" else KINDS), ""}
        unknown = sorted(set(table["kind"].cat.categories) - known)
        if unknown and len(table):
            yield f"{what} of kind {unknown[0]}"


def _odd_numbers(table: pd.DataFrame, what: str) -> Iterator[str]:
    for name, dtype in table.dtypes.items():
        if not isinstance(dtype, np.dtype) or dtype.kind != "i" or name in ("start_ns", "end_ns"):
            continue
        values = table[name].to_numpy()
        least = _LEAST.get(str(name), -1 if name in _MAY_LACK else 0)
        low, high = (int(values.min(initial=0)), int(values.max(initial=0)))
        if least is not None and low < least:
            yield f"{what} with a {name} of {low}"
        if name in _MOST and high >= _MOST[str(name)]:
            yield f"{what} with a {name} of {high}"


def _rows_of(table: pd.DataFrame, name: str, rows: int, what: str) -> Iterator[str]:
    values = table[name].to_numpy()
    if int(values.max(initial=-1)) >= rows:
        yield f"{what} with a {name} of {values.max()}, of {rows} rows"


def _earlier(parent: NDArray[Any], what: str) -> Iterator[str]:
    """A parent stands before what is in it, so that there is no circle."""
    for begin in range(0, len(parent), _PIECE_ROWS):
        piece = parent[begin : begin + _PIECE_ROWS]
        late = piece >= np.arange(begin, begin + len(piece), dtype=piece.dtype)
        if late.any():
            row = begin + int(np.argmax(late))
            yield f"row {row} of its {what} in row {parent[row]}, which does not stand before it"


def _no_circle(parent: NDArray[np.int64]) -> Iterator[str]:
    """Steps outwards, twice as many each time, end where nothing is around."""
    for _ in range(len(parent).bit_length()):
        if (parent < 0).all():
            return
        parent = np.where(parent < 0, -1, parent[parent])
    if (parent >= 0).any():
        yield "events around each other in a circle"


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
    """The columns of text of all tables, each with its distinct values, or all where there are few rows."""
    for each in fields(Tables):
        table = getattr(tables, each.name)
        if not isinstance(table, pd.DataFrame):
            continue
        for name, dtype in table.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype):
                yield str(name), list(dtype.categories)
            elif dtype.kind == "O":
                yield str(name), table[name].tolist()


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
