"""Durations without what the clock itself took: the columns `corrected_cycles` and `corrected_ns`.

Between two clock reads of a warp there lies at least the time that one read takes. A span with spans inside
is cut into many such stretches, and is too long by that time for each of them. Neighbours share a read, as
where one iteration ends and the next begins, so stretches are counted, not spans. And behind the last record
of a loop's iteration its row is stored, in the loop's own time, or in the iteration's where that has a span.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from instrument_passes.span_columns import CORRECTED_COLUMNS
from profscope.analysis.clock_cost import Cost, record_cost
from profscope.analysis.pieces import each_piece, pieces
from profscope.analysis.span_rows import Flags, Floats, Ints
from profscope.schema import Tables

__all__ = ["CORRECTED", "Durations", "are_corrected", "narrow_durations", "weighed", "with_corrected"]

CORRECTED = tuple(CORRECTED_COLUMNS)


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
        columns = [pd.arrays.IntegerArray(each, np.zeros(len(df), np.bool_)) for each in _wide(df, cost)]
    return _with_columns(df, dict(zip(CORRECTED, columns, strict=True)))


def _with_columns(df: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table with other columns, or more of them. None is copied, as assign() does."""
    table = pd.DataFrame({str(name): df[name] for name in df} | columns, df.index, copy=False)
    table.attrs |= df.attrs
    return table


class Durations(NamedTuple):
    """By span; integers."""

    cycles: NDArray[np.integer[Any]]
    ns: NDArray[np.integer[Any]]


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


def narrow_durations(df: pd.DataFrame, metadata: dict[str, Any]) -> Durations:
    """`corrected_cycles` and `corrected_ns` as arrays, of 32 bits where all fit, durations of four seconds:
    memory that is new costs more than what is done with it. Raises ValueError where they are not known."""
    cost = record_cost(metadata)
    if cost is None:
        raise ValueError("nobody knows what a record costs")
    return _corrected(df, cost, np.dtype(np.uint32)) or _wide(df, cost)


def _wide(df: pd.DataFrame, cost: Cost) -> Durations:
    corrected = _corrected(df, cost, np.dtype(np.int64))
    assert corrected is not None  # as that dtype has all there are
    return corrected


def _corrected(df: pd.DataFrame, cost: Cost, dtype: np.dtype[Any]) -> Durations | None:
    """Of a dtype; None where it does not hold all."""
    kind = df["kind"].array
    code_of = {name: code for code, name in enumerate(kind.categories)}
    codes = [code_of.get(name, -2) for name in ("async", "iteration", "loop")]
    columns = [
        df[name].to_numpy()
        for name in ("parent", "depth", "iteration", "start_cycle", "duration_cycles", "duration_ns")
    ]
    durations = Durations(np.empty(len(df), dtype), np.empty(len(df), dtype))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max

    def correct(part: slice) -> bool:
        parent, *others = (column[part] for column in columns)
        rows = _Rows(parent - part.start, *others, *(kind.codes[part] == code for code in codes))
        found = _of_rows(rows, cost)
        for each, values in zip(durations, found, strict=True):
            np.copyto(each[part], values, casting="unsafe")
        return dtype == np.int64 or all(
            values.min(initial=0) >= least and values.max(initial=0) <= most for values in found
        )

    return durations if all(each_piece(correct, pieces(df))) else None


class _Level(NamedTuple):
    """The synchronous spans of one depth that are inside of others, side by side and in order of time where
    they are inside of the same one."""

    rows: Ints
    first: Ints  # of `rows`, where those of another one begin
    around: Ints  # by such a place the span around


def _levels(rows: _Rows) -> list[_Level]:
    """From the deepest to depth 1."""
    levels = []
    depths = np.where(rows.asynchronous, 0, rows.depth)
    for depth in range(int(depths.max(initial=0)), 0, -1):
        here = np.flatnonzero(depths == depth)
        if not len(here):
            continue
        above = rows.parent.take(here)
        opens = np.ones(len(here), np.bool_)
        np.not_equal(above[1:], above[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        levels.append(_Level(here, first, above[first]))
    return levels


def _of_rows(rows: _Rows, cost: Cost) -> tuple[Ints, Ints]:
    levels = _levels(rows)
    own, own_ns = rows.cycles.copy(), rows.ns.copy()
    for took, left in ((rows.cycles, own), (rows.ns, own_ns)):
        for level in levels:
            left[level.around] -= np.add.reduceat(took.take(level.rows), level.first)
    taken = _lost(rows, levels, own, cost)
    lost = np.rint(taken, out=taken).astype(np.int64)
    share = np.maximum(taken, 0, out=taken)
    share /= np.maximum(own, 1, out=own)
    share *= own_ns
    lost_ns = np.rint(share, out=share).astype(np.int64)
    for total in (lost, lost_ns):  # their own, and then with what those inside lost
        for level in levels:
            total[level.around] += np.add.reduceat(total.take(level.rows), level.first)
    return np.subtract(rows.cycles, lost, out=lost), np.subtract(rows.ns, lost_ns, out=lost_ns)


def _lost(spans: _Rows, levels: list[_Level], own: Ints, cost: Cost) -> Floats:
    """By span the cycles that records took of its own time.

    A span loses one read for each stretch between two reads: before its first child, between
    any two and behind the last, but for those where neighbours share a read. It loses one row if it is an
    iteration, and else one for each iteration among its children. It never loses more than it has.
    """
    around_rows = spans.is_loop | (spans.iteration < 0)
    fixed = cost.row * spans.is_iteration
    records: Floats = np.asarray(cost.read + fixed, np.float64)  # of a span with nothing inside
    end = spans.start + spans.cycles
    for rows, first, around in levels:
        last = np.append(first[1:], len(rows)) - 1
        begins, ends = spans.start.take(rows), end.take(rows)
        stretch = np.empty(len(rows), np.bool_)
        np.greater(begins[1:], ends[:-1], out=stretch[1:])
        stretch[first] = begins[first] > spans.start[around]
        stretches = np.add.reduceat(stretch, first, dtype=np.int64)
        stretches += ends[last] < end[around]
        iteration = spans.iteration.take(rows)
        stored = np.ones(len(rows), np.bool_)
        np.not_equal(iteration[1:], iteration[:-1], out=stored[1:])
        stored[first] = True
        stored &= (iteration >= 0) & ~spans.is_iteration.take(rows)
        stores = np.add.reduceat(stored, first, dtype=np.int64)
        records[around] = stretches * cost.read + stores * around_rows[around] * cost.row + fixed[around]
    return np.minimum(records, own)


def are_corrected(tables: Tables) -> bool:
    """Whether what is added up of these spans is without what records took: where that is known, and no
    launches kept sums, of which it is not taken out."""
    return record_cost(tables.metadata) is not None and not len(tables.sums)


def weighed(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """Spans whose durations are the corrected ones, where these are known: to be added up. Their starts are
    as they were read, so that what begins behind them does not begin at their ends."""
    cost = record_cost(metadata)
    if cost is None:
        return df
    cycles, ns = _wide(df, cost)
    return _with_columns(df, {"duration_cycles": cycles, "duration_ns": ns})
