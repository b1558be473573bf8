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

from profscope.analysis.spans.pieces import each_piece, pieces
from profscope.analysis.spans.rows import Flags, Floats, Ints, begins_of_runs
from profscope.schema import CORRECTED_DTYPES, Tables

__all__ = [
    "CORRECTED",
    "Cost",
    "Durations",
    "are_corrected",
    "narrow_durations",
    "record_cost",
    "weighed",
    "with_corrected",
]


class Cost(NamedTuple):
    """In cycles of the SM. read: from one clock read to the next where nothing lies between; row: what the
    store of the records of a loop's iteration adds."""

    read: float
    row: float

    @property
    def each(self) -> float:
        """Of one record at most, in a loop whose iterations have two."""
        return self.read + self.row / 2


def record_cost(metadata: dict[str, Any]) -> Cost | None:
    """From the entry "clock"; None if unknown, as in older profiles and other tools' traces."""
    clock = metadata.get("clock") or {}
    read = clock.get("read_cycles")
    if read is None:
        return None
    return Cost(float(read), float(clock.get("row_cycles") or 0.0))


CORRECTED = tuple(CORRECTED_DTYPES)


def with_corrected(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A span table with the columns CORRECTED behind its own, Int64; its other columns are not copied.

    corrected_cycles: duration_cycles less the time of the clock reads and of the stored rows in it, whole
    cycles of each span's own time. The self times that follow from it (`self_times`) are not below 0, and add
    up as those of durations do. An async span loses one read. corrected_ns: duration_ns, each span's own time
    shortened by the same part.

    Missing if the cost of a read is unknown (`metadata["clock"]`): in older profiles, in other tools'.
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

    def part(self, part: slice) -> _Rows:
        """Some of them, in which all are that are inside of one."""
        return _Rows(
            self.parent[part] - part.start, self.depth[part], self.iteration[part], self.start[part],
            self.cycles[part], self.ns[part], self.asynchronous[part], self.is_iteration[part],
            self.is_loop[part],
        )  # fmt: skip


def narrow_durations(df: pd.DataFrame, metadata: dict[str, Any]) -> Durations:
    """`corrected_cycles` and `corrected_ns` as arrays, of 32 bits where all fit, durations of four seconds:
    memory that is new costs more than what is done with it. Raises ValueError if they are unknown."""
    cost = record_cost(metadata)
    if cost is None:
        raise ValueError("the cost of a record is unknown")
    return _corrected(df, cost, np.dtype(np.uint32)) or _wide(df, cost)


def _wide(df: pd.DataFrame, cost: Cost) -> Durations:
    corrected = _corrected(df, cost, np.dtype(np.int64))
    assert corrected is not None  # as that dtype has all there are
    return corrected


def _corrected(df: pd.DataFrame, cost: Cost, dtype: np.dtype[Any]) -> Durations | None:
    """Of a dtype; None where it does not hold all."""
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
    durations = Durations(np.empty(len(df), dtype), np.empty(len(df), dtype))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max

    def correct(part: slice) -> bool:
        found = _of_rows(rows.part(part), cost)
        for each, values in zip(durations, found, strict=True):
            each[part] = values.astype(dtype)
        return all(values.min(initial=0) >= least and values.max(initial=0) <= most for values in found)

    return durations if all(each_piece(correct, pieces(df))) else None


class _Level(NamedTuple):
    """The synchronous spans of one depth that are inside of others, side by side and in order of time where
    they are inside of the same one."""

    rows: Ints
    first: Ints  # of `rows`, where those of another one begin
    last: Ints  # and where they end
    around: Ints  # by such a place the span around

    def sums(self, values: NDArray[Any]) -> Ints:
        """Of values by row, by the span around: a third of what np.add.reduceat takes for so few a group."""
        ends = np.cumsum(values, dtype=np.int64).take(self.last)
        ends[1:] -= ends[:-1].copy()
        return ends


def _levels(rows: _Rows) -> list[_Level]:
    """From the deepest to depth 1."""
    levels, synchronous = [], ~rows.asynchronous
    for depth in range(int(rows.depth.max(initial=0)), 0, -1):
        here = np.flatnonzero((rows.depth == depth) & synchronous)
        if not len(here):
            continue
        above = rows.parent.take(here)
        first = begins_of_runs(above)
        last = np.append(first[1:], len(here)) - 1
        levels.append(_Level(here, first, last, above.take(first)))
    return levels


def _of_rows(rows: _Rows, cost: Cost) -> tuple[Ints, Ints]:
    levels = _levels(rows)
    own, own_ns = rows.cycles.copy(), rows.ns.copy()
    for took, left in ((rows.cycles, own), (rows.ns, own_ns)):
        for level in levels:
            left[level.around] -= level.sums(took.take(level.rows))
    own_cycles = own.astype(np.float64)
    part = np.rint(np.minimum(_records(rows, levels, cost), own_cycles))  # never more than it has
    lost = part.astype(np.int64)
    np.maximum(part, 0.0, out=part)
    part /= np.maximum(own_cycles, 1.0, out=own_cycles)
    part *= own_ns
    lost_ns = np.rint(part).astype(np.int64)
    for total in (lost, lost_ns):  # their own, and then with what those inside lost
        for level in levels:
            total[level.around] += level.sums(total.take(level.rows))
    return rows.cycles - lost, rows.ns - lost_ns


def _records(spans: _Rows, levels: list[_Level], cost: Cost) -> Floats:
    """By span the cycles that records took of its own time, if it had as many.

    A span loses one read for each stretch between two reads: before its first child, between
    any two and behind the last, but for those where neighbours share a read. It loses one row if it is an
    iteration, and else one for each iteration among its children.
    """
    # Of a span with nothing inside.
    records: Floats = np.asarray(cost.read + cost.row * spans.is_iteration, np.float64)
    for level in levels:
        rows, first, last, around = level
        begins = spans.start.take(rows)
        ends = begins + spans.cycles.take(rows)
        stretch = np.empty(len(rows), np.bool_)
        np.greater(begins[1:], ends[:-1], out=stretch[1:])
        begin = spans.start[around]
        stretch[first] = begins[first] > begin
        stretches = level.sums(stretch)
        stretches += ends[last] < begin + spans.cycles[around]
        lost = stretches * cost.read
        of_rows = spans.is_loop[around] | (spans.iteration[around] < 0)
        if of_rows.any():
            lost += _stores(spans, level) * of_rows * cost.row
        records[around] = lost + cost.row * spans.is_iteration[around]
    return records


def _stores(spans: _Rows, level: _Level) -> Ints:
    """By the span around: how many iterations there are in a level that have no span of their own."""
    iteration = spans.iteration.take(level.rows)
    stored = np.zeros(len(iteration), np.bool_)
    stored[begins_of_runs(iteration)] = True
    stored[level.first] = True
    stored &= (iteration >= 0) & ~spans.is_iteration.take(level.rows)
    return level.sums(stored)


def are_corrected(tables: Tables) -> bool:
    """Whether sums of these spans leave out the cost of records: if that cost is known."""
    return record_cost(tables.metadata) is not None


def weighed(df: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """Spans with corrected durations, if the cost of records is known: for sums. Their starts stay raw, so
    the next span does not begin at a span's end."""
    cost = record_cost(metadata)
    if cost is None:
        return df
    cycles, ns = _wide(df, cost)
    return _with_columns(df, {"duration_cycles": cycles, "duration_ns": ns})
