"""Durations without what the clock itself took: the columns `corrected_cycles` and `corrected_ns`.

Between two clock reads of a warp there lies at least the time that one read takes. A span with spans inside
is cut into many such stretches, and is too long by that time for each of them. Neighbours share a read, as
where one iteration ends and the next begins, so stretches are counted, not spans. And behind the last record
of a loop's iteration its row is stored, in the loop's own time, or in the iteration's where that has a span.
"""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from instrument_passes.span_columns import CORRECTED_COLUMNS
from profscope.analysis.clock_cost import Cost, record_cost
from profscope.analysis.span_rows import Flags, Floats, Ints, own_times
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["CORRECTED", "are_corrected", "weighed", "with_corrected"]

CORRECTED = tuple(CORRECTED_COLUMNS)
_ROWS: Final = 1 << 17


def with_corrected(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A span table with the columns CORRECTED behind its own, Int64; its other columns are not copied.

    corrected_cycles: duration_cycles less the time of the clock reads and of the stored rows in it, whole
    cycles of each span's own time. The self times that follow from it (`self_times`) are not below 0, and add
    up as those of durations do. An async span loses one read. corrected_ns: duration_ns, each span's own time
    shortened by the same part.

    Missing where the cost of a read is not known (`metadata["clock"]`): in older profiles, in other tools'.
    A row's store may hide where the warp waits anyway, so where loops wait the figure is too small rather
    than too great; it is off by no more than the rows' cost.
    """
    cost = record_cost(metadata)
    if cost is None:
        nothing = np.ones(len(df), np.bool_)
        columns = [pd.arrays.IntegerArray(np.zeros(len(df), np.int64), nothing.copy()) for _ in CORRECTED]
    else:
        columns = [pd.arrays.IntegerArray(each, np.zeros(len(df), np.bool_)) for each in _corrected(df, cost)]
    corrected = df.copy(deep=False)  # older versions of pandas copy all of it in assign()
    for name, column in zip(CORRECTED, columns, strict=True):
        corrected[name] = column
    return corrected


class _Rows(NamedTuple):
    """Spans with all that are inside of them: columns of a span table, and of which kind the rows are."""

    parent: Ints  # positions among these rows
    depth: Ints
    iteration: Ints
    start: Ints
    cycles: Ints
    ns: Ints
    asynchronous: Flags
    is_iteration: Flags
    is_loop: Flags

    def part(self, begin: int, end: int) -> _Rows:
        """Some of them, in which all are that are inside of one."""
        part = slice(begin, end)
        return _Rows(
            self.parent[part] - begin, self.depth[part], self.iteration[part], self.start[part],
            self.cycles[part], self.ns[part], self.asynchronous[part], self.is_iteration[part],
            self.is_loop[part],
        )  # fmt: skip


def _corrected(df: pd.DataFrame, cost: Cost) -> tuple[Ints, Ints]:
    """Cycles and nanoseconds by row, a hundred thousand rows at a time: so many fit a core's caches."""
    kind = df["kind"].array
    code_of = {name: code for code, name in enumerate(kind.categories)}
    rows = _Rows(
        df["parent"].to_numpy(),
        df["depth"].to_numpy(),
        df["iteration"].to_numpy(),
        df["start_cycle"].to_numpy(),
        df["duration_cycles"].to_numpy(),
        df["duration_ns"].to_numpy(),
        *(kind.codes == code_of.get(name, -2) for name in ("async", "iteration", "loop")),
    )
    roots = np.flatnonzero(rows.depth == 0)  # what is inside of one stands behind it
    near = np.searchsorted(roots, np.arange(_ROWS, len(df), _ROWS))
    begins = np.unique(np.append(0, roots[near[near < len(roots)]]))
    ends = np.append(begins[1:], len(df))

    cycles, ns = np.empty(len(df), np.int64), np.empty(len(df), np.int64)

    def part(begin: int, end: int) -> None:
        cycles[begin:end], ns[begin:end] = _of_rows(rows.part(begin, end), cost)

    with worker_pool(os.cpu_count()) as pool:
        for _ in pool.map(part, begins.tolist(), ends.tolist()):
            pass
    return cycles, ns


def _of_rows(rows: _Rows, cost: Cost) -> tuple[Ints, Ints]:
    own, own_ns = (
        np.where(rows.asynchronous, took, own_times(took, rows.parent, ~rows.asynchronous))
        for took in (rows.cycles, rows.ns)
    )
    lost = np.rint(_lost(rows, cost)).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost_ns = np.rint(np.where(own > 0, lost / own, 0.0) * own_ns).astype(np.int64)
    return rows.cycles - _with_inside(rows, lost), rows.ns - _with_inside(rows, lost_ns)


def _with_inside(rows: _Rows, own: Ints) -> Ints:
    """By span, its own value and those of the spans inside, which async ones are not."""
    total = own.copy()
    for level in range(int(rows.depth.max(initial=0)), 0, -1):
        inside = np.flatnonzero((rows.depth == level) & ~rows.asynchronous)
        np.add.at(total, rows.parent[inside], total[inside])
    return total


def _lost(spans: _Rows, cost: Cost) -> Floats:
    """By span the cycles that records took of its own time.

    A span loses one read for each stretch between two reads: before its first child, between
    any two and behind the last, but for those where neighbours share a read. It loses one row if it is an
    iteration, and else one for each iteration among its children. It never loses more than it has.
    """
    start, parent, depth = spans.start, spans.parent, spans.depth
    duration, iteration = spans.cycles, spans.iteration
    around_rows = spans.is_loop | (iteration < 0)
    is_iteration, asynchronous = spans.is_iteration, spans.asynchronous
    fixed = cost.row * is_iteration
    lost: Floats = np.minimum(duration, cost.read + fixed)  # of a span with nothing inside
    deepest = int(depth.max(initial=0))
    for level in range(deepest, 0, -1):
        rows = np.flatnonzero((depth == level) & ~asynchronous)
        if not len(rows):
            continue
        # The children of one span stand side by side among those of their depth, in order of time.
        above, begin, took = parent[rows], start[rows], duration[rows]
        end = begin + took
        opens = np.ones(len(rows), np.bool_)
        np.not_equal(above[1:], above[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(rows)) - 1
        around = above[first]
        stretch = np.empty(len(rows), np.bool_)
        stretch[1:] = begin[1:] > end[:-1]
        stretch[first] = begin[first] > start[around]
        stretches = np.add.reduceat(stretch.astype(np.int64), first)
        stretches += end[last] < start[around] + duration[around]
        stored = np.ones(len(rows), np.bool_)
        np.not_equal(iteration[rows[1:]], iteration[rows[:-1]], out=stored[1:])
        stored |= opens
        stored &= (iteration[rows] >= 0) & ~is_iteration[rows]
        stores = np.add.reduceat(stored.astype(np.int64), first) * around_rows[around]
        records = stretches * cost.read + stores * cost.row + fixed[around]
        own = duration[around] - np.add.reduceat(took, first)
        lost[around] = np.minimum(records, own)
    return lost


def are_corrected(tables: Tables) -> bool:
    """Whether what is added up of these spans is without what records took: where that is known, and no
    launches kept sums, of which it is not taken out."""
    return record_cost(tables.metadata) is not None and not len(tables.sums)


def weighed(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """Spans whose durations are the corrected ones, where these are known: to be added up. Their starts are
    as they were read, so that what begins behind them does not begin at their ends."""
    if record_cost(metadata) is None:
        return df
    corrected = with_corrected(df, metadata)
    durations = {unit: corrected[f"corrected_{unit}"].to_numpy(np.int64) for unit in ("cycles", "ns")}
    return df.assign(**{f"duration_{unit}": values for unit, values in durations.items()})
