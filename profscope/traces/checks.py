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

__all__ = ["column_problems", "misfit", "unsound", "validate"]

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


def validate(tables: Tables) -> list[str]:
    """What is wrong with the tables, one line each, naming the first row concerned and how many there are.

    Empty for a sound profile.
    """
    df, launches = tables.df, tables.launches
    problems = column_problems(tables)
    if problems:
        return problems  # the checks below need the columns
    return [
        *_values(df, launches),
        *_nesting(df),
        *_waits(df),
        *_order(df),
        *_samples(tables),
        *_around(tables),
    ]


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


def _rows(what: str, wrong: NDArray[np.bool_], table: str = "df") -> Iterator[str]:
    rows = np.flatnonzero(wrong)
    if len(rows):
        yield f"{table}: {what} (row {rows[0]}, {len(rows)} in all)"


def _values(df: pd.DataFrame, launches: pd.DataFrame) -> Iterator[str]:
    for name in ("launch", "depth", "duration_cycles", "duration_ns"):
        yield from _rows(f"negative {name}", df[name].to_numpy() < 0)
    kinds = df["kind"].cat.categories
    yield from _rows(
        f"kind is none of {', '.join(KINDS)}", ~kinds.isin(KINDS)[df["kind"].cat.codes.to_numpy()]
    )
    mark = (df["kind"] == "mark").to_numpy()
    yield from _rows("a mark with a duration", mark & (df["duration_cycles"].to_numpy() != 0))
    if launches["launch"].duplicated().any():
        yield "launches: a launch number occurs twice"
    yield from _rows("launch not in the table of launches", ~df["launch"].isin(launches["launch"]).to_numpy())


def _samples(tables: Tables) -> Iterator[str]:
    samples = tables.samples
    yield from _rows("a row without samples", (samples["samples"] <= 0).to_numpy(), "samples")
    known = samples["binary"].isin(("bare", "spans")).to_numpy()
    yield from _rows("binary is none of bare, spans", ~known, "samples")
    listed = samples["launch"].isin([*tables.launches["launch"], -1]).to_numpy()
    yield from _rows("launch not in the table of launches", ~listed, "samples")


def _around(tables: Tables) -> Iterator[str]:
    """Host scopes and events."""
    host, events = tables.host, tables.events
    for table, frame in (("host", host), ("events", events)):
        backwards = frame["end_unix_ns"].to_numpy() < frame["start_unix_ns"].to_numpy()
        yield from _rows("ends before it starts", backwards, table)
    parent = host["parent"].to_numpy()
    yield from _rows("parent is not an earlier row", (parent >= np.arange(len(host))) | (parent < -1), "host")
    parent = events["parent"].to_numpy()
    outside = (parent < -1) | (parent >= len(events)) | (parent == np.arange(len(events)))
    yield from _rows("parent is not another row", outside, "events")
    kinds = events["kind"].cat.categories.isin(EVENT_KINDS)[events["kind"].cat.codes.to_numpy()]
    yield from _rows(f"kind is none of {', '.join(EVENT_KINDS)}", ~kinds, "events")
    for table, frame in (("events", events), ("launches", tables.launches)):
        scope = frame["host"].to_numpy()
        yield from _rows("host is no row of host", (scope < -1) | (scope >= len(host)), table)
    listed = events["launch"].isin([*tables.launches["launch"], -1]).to_numpy()
    yield from _rows("launch not in the table of launches", ~listed, "events")


def _nesting(df: pd.DataFrame) -> Iterator[str]:
    row = np.arange(len(df))
    parent = df["parent"].to_numpy()
    depth = df["depth"].to_numpy()
    asynchronous = (df["kind"] == "async").to_numpy()
    yield from _rows("parent is not an earlier row", (parent >= row) | (parent < -1))
    yield from _rows(
        "a root that is not at depth 0, or depth 0 with a parent", (parent == -1) != (depth == 0)
    )
    child = np.flatnonzero((parent >= 0) & (parent < row))
    above = parent[child]
    wrong = np.zeros(len(df), np.bool_)
    wrong[child] = depth[child] != depth[above] + 1
    yield from _rows("depth is not the parent's plus one", wrong)
    wrong[:] = False
    wrong[child] = asynchronous[above]
    yield from _rows("parent is an async span", wrong)
    for name in ("launch", "cta", "warp"):
        wrong[:] = False
        wrong[child] = df[name].to_numpy()[child] != df[name].to_numpy()[above]
        yield from _rows(f"parent is of another {name}", wrong)
    for start_name, duration_name in (("start_cycle", "duration_cycles"), ("start_ns", "duration_ns")):
        start = df[start_name].to_numpy()
        end = start + df[duration_name].to_numpy()
        # An async span may outlast the span that issued it, but not start outside.
        wrong[:] = False
        wrong[child] = (start[child] < start[above]) | (start[child] > end[above])
        wrong[child] |= (end[child] > end[above]) & ~asynchronous[child]
        yield from _rows(f"outside its parent ({start_name})", wrong)
        yield from _overlaps(df, start, end, start_name)


def _waits(df: pd.DataFrame) -> Iterator[str]:
    wait = df["wait"].to_numpy()
    asynchronous = (df["kind"] == "async").to_numpy()
    outside = (wait < -1) | (wait >= len(df))
    yield from _rows("wait is not a row", outside)
    yield from _rows("a wait that ended nothing asynchronous", (wait != -1) & ~asynchronous)
    ended = np.flatnonzero(asynchronous & (wait >= 0) & ~outside)
    by = wait[ended]
    wrong = np.zeros(len(df), np.bool_)
    wrong[ended] = asynchronous[by]
    for name in ("launch", "cta"):
        wrong[ended] |= df[name].to_numpy()[ended] != df[name].to_numpy()[by]
    end = df["start_cycle"].to_numpy() + df["duration_cycles"].to_numpy()
    wrong[ended] |= end[ended] != end[by]
    yield from _rows("does not end with its wait", wrong)


def _overlaps(df: pd.DataFrame, start: NDArray[Any], end: NDArray[Any], name: str) -> Iterator[str]:
    # Rows of one parent stand in time order, so a stable sort by parent lines siblings up.
    synchronous = np.flatnonzero((df["kind"] != "async").to_numpy() & (df["parent"].to_numpy() >= 0))
    order = synchronous[np.argsort(df["parent"].to_numpy()[synchronous], kind="stable")]
    siblings = df["parent"].to_numpy()[order[1:]] == df["parent"].to_numpy()[order[:-1]]
    wrong = np.zeros(len(df), np.bool_)
    wrong[order[1:]] = siblings & (start[order[1:]] < end[order[:-1]])
    yield from _rows(f"overlaps the sibling before it ({name})", wrong)


def _order(df: pd.DataFrame) -> Iterator[str]:
    wrong = np.zeros(len(df), np.bool_)
    equal = np.ones(max(len(df) - 1, 0), np.bool_)
    for name in ("launch", "cta", "warp", "start_cycle"):
        values = df[name].to_numpy()
        wrong[1:] |= equal & (values[1:] < values[:-1])
        equal &= values[1:] == values[:-1]
    yield from _rows("rows are not ordered by launch, cta, warp, start_cycle", wrong)
