"""What is wrong with the tables of a profile, row by row: what every test of a profile asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import EVENT_KINDS, KINDS, Tables
from profscope.traces.checks import column_problems


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
