"""How far the ranks of a job are apart, step by step, and which one the others waited for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.program.host_scopes import scope_paths, without_events
from profscope.analysis.ranks.collectives import collectives, host_clock_error_ns, numbers
from profscope.analysis.spans.rows import Ints, united
from profscope.schema import GPU_KINDS, Tables

__all__ = ["STEP_DTYPES", "steps"]

STEP_DTYPES: Final = {
    "step": "int64",
    "rank": "int32",
    "start_unix_ns": "int64",
    "end_unix_ns": "int64",
    "duration_ns": "int64",
    "late_start_ns": "Int64",
    "late_end_ns": "Int64",
    "gpu_launches": "int64",
    "gpu_busy_ns": "int64",
    "collective_ns": "int64",
    "waiting_ns": "Int64",
    "slowest_rank": "Int64",
}
"""The columns of `steps`, with their pandas dtypes, in order."""

_NAMED: Final = 8


def steps(tables: Tables, scope: str = "step") -> pd.DataFrame:
    """The steps of a program, rank by rank: one row per step and rank.

        step  rank  duration_ns  late_start_ns  gpu_busy_ns  collective_ns  waiting_ns  slowest_rank
           0     0      5310000              0      5250000        5031000     5012000             1
           0     1      5290000          11000       262000          19500           0             1

    A step is a scope of the host's code (`profscope.scope`, NVTX, record_function) of this name, or of this
    path ("epoch > step"), that lies in no other of them. step: the n-th on each rank is the same one
    (`occurrences.numbers`). Times are of the host's clock; what a step launched may run on the GPU after it.
    late_start_ns, late_end_ns: how long after the first rank's it began and ended.
    gpu_launches: kernels, collectives, copies and sets that it launched; gpu_busy_ns: how long at least one
    of them ran, on each GPU, also while a collective only waits. Without events these are of the recorded
    launches alone.
    collective_ns, waiting_ns: of its collectives, added up (see `collectives`); missing where no waiting of a
    step's is known.
    slowest_rank: the one that waited least, so the others waited for it; missing where all ranks waited
    equally long to within the clocks' error. Of steps without collectives in common it is the one that took
    longest.

    attrs has "clock_error_ns": by so much late_start_ns and late_end_ns may be off; and "not_measured": why
    figures are missing, or the table is empty.
    """
    host = tables.host
    paths = np.array(scope_paths(host), object)
    step_of = _steps_of(host, (host["scope"] == scope).to_numpy() | (paths == scope))
    rows = np.flatnonzero(step_of == np.arange(len(host)))
    columns = ("rank", "start_unix_ns", "end_unix_ns")
    rank, start, end = (host[name].to_numpy(np.int64)[rows] for name in columns)
    table = pd.DataFrame(
        {"rank": rank, "start_unix_ns": start, "end_unix_ns": end, "duration_ns": end - start}, index=rows
    )
    table["step"] = numbers(np.full(len(rows), scope, object), rank, start, end)
    error_ns = host_clock_error_ns(tables)
    of_step = table.groupby("step")
    comparable = (of_step["rank"].transform("nunique") > 1) & (error_ns is not None)
    for name in ("start", "end"):
        first = of_step[f"{name}_unix_ns"].transform("min")
        table[f"late_{name}_ns"] = (table[f"{name}_unix_ns"] - first).astype("Int64").where(comparable)
    every = collectives(tables)
    met = _with_row(every, step_of).groupby("row")
    table["collective_ns"] = met["duration_ns"].sum().reindex(rows, fill_value=0)
    table["waiting_ns"] = met["waiting_ns"].sum(min_count=1).reindex(rows).astype("Int64")
    work = _with_row(_gpu_work(tables), step_of)
    table["gpu_launches"] = work.groupby("row").size().reindex(rows, fill_value=0)
    table["gpu_busy_ns"] = _busy_ns(work).reindex(rows, fill_value=0)
    waits = met["waiting_ns"].count().reindex(rows, fill_value=0)
    table["slowest_rank"] = _slowest(table, waits * (every.attrs["clock_error_ns"] or 0.0))
    order = np.lexsort((table["rank"], table["step"]))
    result = table.iloc[order][list(STEP_DTYPES)].astype(STEP_DTYPES).reset_index(drop=True)
    result.attrs["clock_error_ns"] = error_ns
    result.attrs["not_measured"] = _not_measured(tables, result, scope, every)
    return result


def _steps_of(host: pd.DataFrame, is_step: NDArray[np.bool_]) -> Ints:
    """For each scope the outermost step that it lies in, or is; -1 for none."""
    parent, depth = host["parent"].to_numpy(np.int64), host["depth"].to_numpy()
    step_of = np.where(is_step, np.arange(len(host)), -1)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero((depth == level) & (parent >= 0))
        outer = step_of[parent[rows]]
        step_of[rows] = np.where(outer >= 0, outer, step_of[rows])
    return step_of


def _with_row(table: pd.DataFrame, step_of: Ints) -> pd.DataFrame:
    """What was launched in a step, and in which: its row in the host's scopes."""
    inside = table[table["host"] >= 0]
    inside = inside.assign(row=step_of[inside["host"].to_numpy()])
    return inside[inside["row"] >= 0]


def _gpu_work(tables: Tables) -> pd.DataFrame:
    events = tables.events[tables.events["kind"].isin(GPU_KINDS)]
    source, clock = (events, "unix_ns") if len(events) else (tables.launches, "ns")
    names = {"host": "host", "device": "device", f"start_{clock}": "start", f"end_{clock}": "end"}
    return source[list(names)].rename(columns=names)


def _busy_ns(work: pd.DataFrame) -> pd.Series[Any]:
    """By step, how long at least one thing ran on each GPU, of all together."""
    if not len(work):
        return pd.Series(dtype="int64")
    groups = work.groupby(["row", "device"])
    group = groups.ngroup().to_numpy(np.int64)
    first = groups["start"].transform("min").to_numpy(np.int64)
    start, end = (work[name].to_numpy(np.int64) - first for name in ("start", "end"))
    apart_ns = int(end.max()) + 1  # each group on a stretch of its own, all are united at once
    begins, ends = united(start + group * apart_ns, end + group * apart_ns)
    busy = np.bincount(begins // apart_ns, (ends - begins).astype(np.float64), int(group.max()) + 1)
    row = np.zeros(len(busy), np.int64)
    row[group] = work["row"].to_numpy()
    return pd.Series(busy, row).groupby(level=0).sum()


def _slowest(table: pd.DataFrame, error_ns: pd.Series[Any]) -> pd.Series[Any]:
    """By row, the slowest rank of its step; missing where there is none. error_ns: of each row's waiting."""
    ordered = {
        "longest": table.sort_values("duration_ns", ascending=False, kind="stable"),
        "waited": table.sort_values("waiting_ns", kind="stable"),
    }
    rank = {
        how: table["step"].map(rows.groupby("step")["rank"].first()).astype("Int64")
        for how, rows in ordered.items()
    }
    of_step = table.groupby("step")
    size, known = of_step["rank"].transform("size"), of_step["waiting_ns"].transform("count")
    spread = of_step["waiting_ns"].transform("max") - of_step["waiting_ns"].transform("min")
    more_than_error = (spread > error_ns.groupby(table["step"]).transform("max")).fillna(False).astype(bool)
    by_waiting = rank["waited"].where((known == size) & more_than_error)
    return by_waiting.where(known > 0, rank["longest"]).where(size > 1)


def _not_measured(tables: Tables, table: pd.DataFrame, scope: str, met: pd.DataFrame) -> list[str]:
    if not len(table):
        known = ", ".join(sorted(set(tables.host["scope"]))[:_NAMED])
        there = f"there are {known}" if known else f'there are none; with profscope.scope("{scope}"): ...'
        return [f"steps: no scope of the host's code is called {scope!r}; {there}"]
    said = []
    if table["rank"].nunique() < 2:
        said.append("late starts and ends, slowest ranks: these steps are of one process")
    elif table.attrs["clock_error_ns"] is None:
        said.append("late starts and ends: the hosts' clocks are not on one clock")
    ranks = table.groupby("step")["rank"].nunique()
    alone = int((ranks < table["rank"].nunique()).sum())
    if alone:
        said.append(f"{alone:,} of these steps were not recorded on all ranks")
    return [*said, *without_events(tables), *met.attrs["not_measured"]]
