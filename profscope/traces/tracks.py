"""Which track each span is drawn on: kernel -> SM -> CTA slot -> warp, with no two overlapping spans on one.

Of its kernel's CTAs on an SM each takes the lowest slot that is free for all its time, as it takes a place on
the SM, so there are as many slots as the SM ever ran of them at once. Synchronous spans nest on their warp's
track; a warp whose spans do not nest (an imported trace may hold such) is spread over lanes. Async spans get
their own lanes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.op_labels import label_of
from profscope.analysis.spans.pieces import each_piece, even_pieces, whole_pieces

__all__ = [
    "RUN_COLUMNS",
    "Tracks",
    "assign_tracks",
    "column_run_starts",
    "device_word",
    "drawn_name",
    "interval_slots",
    "nesting_lanes",
    "payload_name",
    "root_spans",
    "row_devices",
    "run_starts",
    "stable_order",
    "warp_name",
]

# Runs: successive rows of a span table that one warp recorded. Packing and drawing both go run by run.

Ints = NDArray[np.int64]
RUN_COLUMNS = ("launch", "cta", "sm", "warp")


def run_starts(df: pd.DataFrame) -> Ints:
    """The rows at which another warp's spans begin, int64 of shape (runs,)."""
    columns = {name: df[name].to_numpy() for name in RUN_COLUMNS}

    def of_piece(part: slice) -> Ints:
        before = max(0, part.start - 1)
        inside = {name: values[before : part.stop] for name, values in columns.items()}
        starts = column_run_starts(inside) + before
        own: Ints = starts[starts >= part.start]
        return own

    return np.concatenate(each_piece(of_piece, even_pieces(len(df))))


def column_run_starts(columns: Mapping[str, NDArray[np.integer]]) -> Ints:
    """As `run_starts`, of columns by name."""
    change = np.ones(len(columns["launch"]), np.bool_)
    change[1:] = False
    for name in RUN_COLUMNS:
        values = columns[name]
        change[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(change)


def stable_order(group: NDArray[np.integer[Any]]) -> Ints:
    """The rows, group by group, in order within each; groups are numbered from 0."""
    # numpy's stable sort is a radix sort for 8-bit and 16-bit keys: many times faster than for 64-bit ones.
    key = np.min_scalar_type(int(group.max(initial=0)))
    return np.argsort(group.astype(key) if key.itemsize <= 2 else group, kind="stable")


Flags = NDArray[np.bool_]
MOST_TRACKS = 4096
"""Of warps, with kernels apart: Perfetto's UI takes seconds to lay out several times as many."""


@dataclass(frozen=True)
class Tracks:
    """The tracks of a span table's rows.

    table       one row per track, in order: pid, tid, device, kernel, sm, slot, warp, lane
    kernels     the names that `kernel` numbers: in order of their launches
    run         each row's run, the spans of one warp that share a track, shape (rows,)
    first       each run's first row, shape (runs,)
    track       each run's track, its number in `table`, shape (runs,)
    async_lane  each async row's lane, unique over the trace; -1 for other rows, shape (rows,)
    spread      the runs of a warp whose spans do not nest, which lie on several tracks
    """

    table: pd.DataFrame
    kernels: list[str]
    run: Ints
    first: Ints
    track: Ints
    async_lane: Ints
    spread: Ints


def row_devices(df: pd.DataFrame, launches: pd.DataFrame) -> Ints:
    """Each row's GPU, int64 of shape (rows,); its rank where there are several, which have a GPU each."""
    device = launches.drop_duplicates("launch").set_index("launch")[_device_column(launches)]
    if device.nunique() <= 1:
        return np.full(len(df), device.iloc[0] if len(device) else 0, np.int64)
    devices: Ints = df["launch"].map(device).fillna(0).to_numpy().astype(np.int64)
    return devices


def device_word(launches: pd.DataFrame) -> str:
    """What the numbers of `row_devices` are of."""
    return "GPU" if _device_column(launches) == "device" else "rank"


def _device_column(launches: pd.DataFrame) -> str:
    return "device" if launches["rank"].nunique() <= 1 else "rank"


def assign_tracks(df: pd.DataFrame, device: Ints) -> Tracks:
    """Lay a span table out; `device` is each row's GPU, shape (rows,)."""
    first = run_starts(df)
    lengths = np.diff(first, append=len(df))
    run = np.repeat(np.arange(len(first)), lengths)
    kernel, kernels = _kernels(df, device[first], first)
    parts = each_piece(partial(_runs_in, df, first, run), whole_pieces(first, len(df)))
    runs = _Runs(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    slot = _cta_slots(df, device, kernel, first, runs)
    start, duration, kind = df["start_ns"].to_numpy(), df["duration_ns"].to_numpy(), df["kind"].array
    # A run whose spans do not nest is split: what lane 0 cannot hold becomes runs of its own.
    split_first: list[int] = []
    split_from: list[int] = []
    split_lane: list[int] = []
    for stray in np.unique(runs.strays).tolist():
        own = slice(first[stray], first[stray] + lengths[stray])
        rows = own.start + np.flatnonzero(kind[own] != "async")
        lanes = nesting_lanes(start[rows], start[rows] + duration[rows])
        for lane in range(1, int(lanes.max()) + 1):
            moved = rows[lanes == lane]
            run[moved] = len(first) + len(split_first)
            split_first.append(int(moved[0]))
            split_from.append(stray)
            split_lane.append(lane)
    slot, kernel = (np.append(each, each[np.array(split_from, np.int64)]) for each in (slot, kernel))
    lane_of_run = np.append(np.zeros(len(first), np.int64), np.array(split_lane, np.int64))
    first = np.append(first, np.array(split_first, np.int64))
    sm, warp = (df[name].to_numpy()[first] for name in ("sm", "warp"))
    track, table = _number_tracks(
        np.stack([device[first], kernel, sm, slot, warp, lane_of_run]).astype(np.int64)
    )
    lanes = _async_lanes(df, runs.on_lanes, track[run[runs.on_lanes]])
    spread = np.append(
        np.unique(np.array(split_from, np.int64)), np.arange(len(slot) - len(split_from), len(slot))
    )
    return Tracks(table, kernels, run, first, track, lanes, spread)


class _Runs(NamedTuple):
    """begin, end: of each run, in ns, asynchronous work to its begin. strays: numbers of runs whose
    synchronous spans do not nest in ns as parent and depth say. on_lanes: rows of asynchronous work."""

    begin: Ints
    end: Ints
    strays: Ints
    on_lanes: Ints


def _runs_in(df: pd.DataFrame, first: Ints, run: Ints, part: slice) -> _Runs:
    """Those in some rows of a table, which hold whole runs."""
    starts, durations = df["start_ns"].to_numpy(), df["duration_ns"].to_numpy()
    parent, depth = df["parent"].to_numpy()[part], df["depth"].to_numpy()[part]
    start, own_run = starts[part], run[part]
    end = start + durations[part]
    synchronous = np.asarray(df["kind"].array[part] != "async")
    begins = first[slice(*np.searchsorted(first, (part.start, part.stop)))] - part.start
    # A selection of rows may lack the parent, and may have it in any other piece.
    inner = np.flatnonzero(synchronous & (parent >= 0) & (parent < len(starts)))
    above = parent[inner]
    outside = (start[inner] < starts[above]) | (end[inner] > starts[above] + durations[above])
    strays = [inner[outside]]
    for level in range(int(depth.max(initial=-1)) + 1):
        # Of one depth and parent, each must end before the next starts.
        rows = np.flatnonzero((depth == level) & synchronous)
        before, after = rows[:-1], rows[1:]
        overlap = (start[after] < end[before]) & (parent[before] == parent[after])
        strays.append(after[overlap & (own_run[before] == own_run[after])])
    return _Runs(
        np.minimum.reduceat(start, begins) if len(begins) else start,
        np.maximum.reduceat(np.where(synchronous, end, start), begins) if len(begins) else start,
        own_run[np.concatenate(strays)],
        part.start + np.flatnonzero(~synchronous),
    )


def interval_slots(group: Ints, start: Ints, end: Ints) -> Ints:
    """Give each interval the lowest slot of its group that no overlapping interval has, from 0.

    Intervals that touch do not share a slot. All arrays have shape (intervals,).
    """
    slots = np.zeros(len(group), np.int64)
    order = np.lexsort((start, group))
    current = None
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for at, key, begin, finish in zip(
        order.tolist(), group[order].tolist(), start[order].tolist(), end[order].tolist(), strict=True
    ):
        if key != current:
            current, busy, free, used = key, [], [], 0
        while busy and busy[0][0] < begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            slot = heapq.heappop(free)
        else:
            slot, used = used, used + 1
        slots[at] = slot
        heapq.heappush(busy, (finish, slot))
    return slots


def nesting_lanes(start: Ints, end: Ints) -> Ints:
    """Spread one warp's spans over lanes so that those of a lane nest: the first lane that takes each."""
    lanes = np.zeros(len(start), np.int64)
    open_ends: list[list[int]] = []
    order = np.lexsort((-end, start))
    for at, begin, finish in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        lane = next(
            (lane for lane, ends in enumerate(open_ends) if _holds(ends, begin, finish)), len(open_ends)
        )
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(finish)
        lanes[at] = lane
    return lanes


def _holds(ends: list[int], begin: int, finish: int) -> bool:
    """Whether a lane, whose open spans end at `ends`, can hold a span; closes those that end before it."""
    while ends and ends[-1] <= begin:
        ends.pop()
    return not ends or finish <= ends[-1]


def _kernels(df: pd.DataFrame, device: Ints, first: Ints) -> tuple[Ints, list[str]]:
    """Each run's kernel, shape (runs,), and the names that these number, in order of their launches.

    -1 for what other tools recorded, which may know no SM: all that ran on a GPU lies side by side there. All
    kernels are one where tracks of their own would be too many for a viewer.
    """
    codes = df["kernel"].cat.codes.to_numpy()[first]
    kernel, distinct = pd.factorize(codes)
    kernel = np.where(df["sm"].to_numpy()[first] < 0, -1, kernel)
    warps = [device, kernel, *(df[name].to_numpy()[first].astype(np.int64) for name in ("sm", "warp"))]
    if len(distinct) > 1 and len(np.unique(_one_number(warps))) > MOST_TRACKS:
        return np.minimum(kernel, 0), [f"{len(distinct)} kernels"]
    return kernel, [str(name) for name in df["kernel"].cat.categories[distinct]]


def _cta_slots(df: pd.DataFrame, device: Ints, kernel: Ints, first: Ints, runs: _Runs) -> Ints:
    """The slot of each run's CTA, shape (runs,)."""
    if not len(df):
        return np.zeros(0, np.int64)
    launch, cta, sm = (df[name].to_numpy()[first] for name in ("launch", "cta", "sm"))
    change = np.ones(len(first), np.bool_)
    change[1:] = (np.diff(launch) != 0) | (np.diff(cta) != 0) | (np.diff(sm) != 0)
    opening = np.flatnonzero(change)
    begin, end = np.minimum.reduceat(runs.begin, opening), np.maximum.reduceat(runs.end, opening)
    places = device[first[opening]], kernel[opening], sm[opening].astype(np.int64)
    place = np.unique(_one_number(places), return_inverse=True)[1]
    return np.repeat(interval_slots(place, begin, end), np.diff(opening, append=len(first)))


def _one_number(keys: Iterable[Ints]) -> Ints:
    """A number for the values at each place of some columns, which order as these do, first column first."""
    code = np.zeros(1, np.int64)
    for values in keys:
        least = int(values.min(initial=0))
        code = code * (int(values.max(initial=0)) - least + 1) + values - least
    return code


def _number_tracks(keys: Ints) -> tuple[Ints, pd.DataFrame]:
    """Number tracks by the rows of `keys`: device, kernel, SM, slot, warp, lane.

    A kernel's part on an SM is a process to viewers of Chrome traces.
    """
    _, first, track = np.unique(_one_number(keys), return_index=True, return_inverse=True)
    names = ["device", "kernel", "sm", "slot", "warp", "lane"]
    table = pd.DataFrame(dict(zip(names, keys[:, first], strict=True)))
    changed = (table[["device", "kernel", "sm"]].diff() != 0).any(axis=1)
    table.insert(0, "pid", changed.cumsum())
    # Perfetto takes a thread with its process's number for the process's main thread, so they must differ.
    above = 1000 * (1 + int(table["pid"].max()) // 1000) if len(table) else 0
    table.insert(1, "tid", above + np.arange(len(table)))
    return track, table


def _async_lanes(df: pd.DataFrame, rows: Ints, track: Ints) -> Ints:
    """Lanes by track and scope; `track` is of `rows`, in order of time on each."""
    lanes = np.full(len(df), -1, np.int64)
    if len(rows):
        scope = df["scope"].cat.codes.to_numpy()[rows].astype(np.int64)
        group, _ = pd.factorize(track * (int(scope.max()) + 1) + scope)
        start = df["start_ns"].to_numpy()[rows]
        slot = _queue_slots(group, start, start + df["duration_ns"].to_numpy()[rows])
        lanes[rows] = pd.factorize(group * (int(slot.max()) + 1) + slot)[0]
    return lanes


def _in_time(group: Ints, start: Ints, end: Ints) -> Ints:
    """The order by group, start and end; little to do where each group's intervals are in order of time."""
    order = stable_order(group)
    before, after = order[:-1], order[1:]
    later = (start[after] > start[before]) | ((start[after] == start[before]) & (end[after] >= end[before]))
    return order if (later | (group[after] != group[before])).all() else np.lexsort((end, start, group))


def _queue_slots(group: Ints, start: Ints, end: Ints) -> Ints:
    """As `interval_slots`, and fast where each group is a queue: what began first ends first.

    As many as are ever under way at once then take turns.
    """
    order = _in_time(group, start, end)
    group, start, end = group[order], start[order], end[order]
    same = group[1:] == group[:-1]
    slots = np.empty(len(order), np.int64)
    # Ends rise within a group, and groups are set apart, so that one search serves all.
    apart = int(end.max()) - int(start.min()) + 2
    if (same & (end[1:] < end[:-1])).any() or (int(group[-1]) + 1) * apart >= 1 << 63:
        slots[order] = interval_slots(group, start, end)
        return slots
    row, least = np.arange(len(order)), int(start.min())
    keys = group * apart + (end - least)

    def open_at(part: slice) -> Ints:
        """How many of the group are under way at each start."""
        ended = np.searchsorted(keys, group[part] * apart + (start[part] - least))
        here: Ints = row[part] - ended
        return here

    under_way = np.concatenate(each_piece(open_at, even_pieces(len(order))))
    first = np.flatnonzero(np.append(True, ~same))
    turns = np.maximum.reduceat(under_way, first) + 1
    count = np.diff(first, append=len(order))
    slots[order] = (row - np.repeat(first, count)) % np.repeat(turns, count)
    return slots


# What things are called where they are drawn: a bar has room for a word or two.

_IN_FLIGHT: Final = " in flight"
_VARIABLE: Final = re.compile(r"[^\W\d]\w*")


def drawn_name(scope: str, kind: str) -> str:
    """A scope's name with the variable first, which a narrow bar still shows: "a: async copy"."""
    if kind not in ("op", "async"):
        return scope
    op = scope.removesuffix(_IN_FLIGHT) if kind == "async" else scope
    label = label_of(op)
    variable = op[len(label) + 1 :]
    if not label or not _VARIABLE.fullmatch(variable):
        return scope
    return f"{variable}: {label}{scope[len(op) :]}"


def warp_name(warp: int, root: str, kernel: str) -> str:
    """A warp's; with its partition's, where the span around all that it did is of one."""
    partition = root.removeprefix(kernel).strip() if root.startswith(f"{kernel} ") else ""
    return f"{partition}, warp {warp}" if partition else f"warp {warp}"


def root_spans(df: pd.DataFrame, tracks: Tracks) -> list[tuple[str, str]]:
    """By track: scope and kernel of its first run's first span, which is around all that the warp did."""
    first = np.zeros(len(tracks.table), np.int64)
    first[tracks.track[::-1]] = tracks.first[::-1]
    return list(zip(df["scope"].iloc[first].tolist(), df["kernel"].iloc[first].tolist(), strict=True))


ARGS = ("file", "line", "call_path", "iter", "cta", "launch")
"""Names that every event's args have; a payload of that name gets a longer one."""


def payload_name(column: pd.Series[Any]) -> str:
    """The name of a column of values in events."""
    return f"{column.name} (value)" if column.name in ARGS else str(column.name)
