"""Which track each span is drawn on: SM -> CTA slot -> warp, with never two overlapping spans on one track.

A CTA takes the lowest slot of its SM that is free for all its time, as a CTA takes a place on the SM, so an SM has
as many slots as it ever ran CTAs at once. Synchronous spans nest on their warp's track; a warp whose spans do not
nest (an imported trace may hold such) is spread over lanes. Async spans get lanes of their own.
"""

import heapq
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.export.columns import run_starts

__all__ = ["Tracks", "assign_tracks", "interval_slots", "nesting_lanes"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tracks:
    """Tracks of a span table.

    table       one row per track: pid, tid, device, sm, slot, warp, lane
    track       each row's track (its number in `table`), shape (rows,)
    async_lane  each async row's lane, unique over the trace; -1 for other rows, shape (rows,)
    paired      whether a row is drawn as a begin and an end event, since zero-length spans at the edges of other
                spans would nest wrongly as complete events, shape (rows,)
    """

    table: pd.DataFrame
    track: Ints
    async_lane: Ints
    paired: NDArray[np.bool_]


def assign_tracks(df: pd.DataFrame, device: Ints) -> Tracks:
    """Lay a span table out; `device` is each row's GPU, shape (rows,)."""
    starts = run_starts(df)
    lengths = np.diff(starts, append=len(df))
    synchronous = (df["kind"] != "async").to_numpy()
    start = df["start_ns"].to_numpy()
    end = start + df["duration_ns"].to_numpy()
    slot = _cta_slots(df, device, starts, start, np.where(synchronous, end, start))
    lane, stray = _warp_lanes(df, lengths, synchronous, start, end)
    keys = np.stack(
        [device, df["sm"].to_numpy(), np.repeat(slot, lengths), df["warp"].to_numpy(), lane]
    ).astype(np.int64)
    track, table = _number_tracks(keys)
    paired = _paired(df, lengths, synchronous, start, end) & ~stray
    return Tracks(
        table, track, _async_lanes(df, synchronous, table["pid"].to_numpy()[track], start, end), paired
    )


def interval_slots(group: Ints, start: Ints, end: Ints) -> Ints:
    """Give each interval the lowest slot of its group that no overlapping interval has, from 0.

    Intervals that touch do not share a slot. All arrays have shape (intervals,).
    """
    slots = np.zeros(len(group), np.int64)
    order = np.lexsort((start, group))
    current = None
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
    """Spread the spans of one warp over lanes so that those of one lane nest: the first lane that takes each."""
    lanes = np.zeros(len(start), np.int64)
    open_ends: list[list[int]] = []
    order = np.lexsort((-end, start))
    for at, begin, finish in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        for lane, ends in enumerate(open_ends):
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or finish <= ends[-1]:
                break
        else:
            lane = len(open_ends)
            open_ends.append([])
        open_ends[lane].append(finish)
        lanes[at] = lane
    return lanes


def _cta_slots(df: pd.DataFrame, device: Ints, starts: Ints, start: Ints, end: Ints) -> Ints:
    """The slot of each run's CTA, shape (runs,)."""
    if not len(df):
        return np.zeros(0, np.int64)
    launch, cta, sm = (df[name].to_numpy()[starts] for name in ("launch", "cta", "sm"))
    change = np.ones(len(starts), np.bool_)
    change[1:] = (np.diff(launch) != 0) | (np.diff(cta) != 0) | (np.diff(sm) != 0)
    first = np.flatnonzero(change)
    begin = np.minimum.reduceat(start, starts[first])
    finish = np.maximum.reduceat(end, starts[first])
    place = device[starts[first]] * (int(sm.max()) + 2) + sm[first]
    return np.repeat(interval_slots(place, begin, finish), np.diff(first, append=len(starts)))


def _warp_lanes(
    df: pd.DataFrame, lengths: Ints, synchronous: NDArray[np.bool_], start: Ints, end: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Each row's lane in its warp, and whether its warp's spans do not nest as the table says."""
    lane = np.zeros(len(df), np.int64)
    rows = np.flatnonzero(synchronous)
    parent = df["parent"].to_numpy()[rows]
    # Walking the spans in pre-order, each must start at or after the end of the sibling before it, and end within
    # its parent. The sibling before is the last row at the same depth or above in the same warp.
    ceiling = np.where(parent >= 0, end[parent], np.iinfo(np.int64).max)
    wrong = end[rows] > ceiling
    wrong |= _overlaps_sibling(df, rows, start, end)
    run = np.repeat(np.arange(len(lengths)), lengths)
    stray = np.zeros(len(lengths), np.bool_)
    stray[run[rows[wrong]]] = True
    first = np.cumsum(lengths) - lengths
    for at in np.flatnonzero(stray).tolist():
        inside = np.arange(first[at], first[at] + lengths[at])
        inside = inside[synchronous[inside]]
        lane[inside] = nesting_lanes(start[inside], end[inside])
    return lane, np.repeat(stray, lengths)


def _overlaps_sibling(df: pd.DataFrame, rows: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Whether each synchronous row starts before the end of the sibling before it, or before its parent."""
    depth = df["depth"].to_numpy()[rows]
    run = _run_of(df)[rows]
    overlaps = np.zeros(len(rows), np.bool_)
    parent = df["parent"].to_numpy()[rows]
    overlaps |= np.where(parent >= 0, start[rows] < start[parent], False)
    for level in range(int(depth.max(initial=-1)) + 1):
        at = np.flatnonzero(depth == level)
        before, after = at[:-1], at[1:]
        siblings = (parent[before] == parent[after]) & (run[before] == run[after])
        overlaps[after] |= siblings & (start[rows[after]] < end[rows[before]])
    return overlaps


def _run_of(df: pd.DataFrame) -> Ints:
    starts = run_starts(df)
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(df)))


def _number_tracks(keys: Ints) -> tuple[Ints, pd.DataFrame]:
    """Tracks in order of device, SM, slot, warp, lane; an SM is a process, the rest of the key a thread."""
    names = ["device", "sm", "slot", "warp", "lane"]
    code = np.zeros(keys.shape[1], np.int64)
    for row in keys:
        code = code * (int(row.max(initial=0)) + 2) + row + 1
    codes, distinct = pd.factorize(code, sort=True)
    first = np.zeros(len(distinct), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    table = pd.DataFrame(dict(zip(names, keys[:, first], strict=True)))
    sm = (table["device"].diff() != 0) | (table["sm"].diff() != 0)
    table.insert(0, "pid", sm.cumsum())
    # Perfetto takes a thread with its process's number for the process's main thread, so they must differ.
    table.insert(1, "tid", 1000 * (1 + len(sm) // 1000) + np.arange(len(table)))
    return codes.astype(np.int64, copy=False), table


def _async_lanes(df: pd.DataFrame, synchronous: NDArray[np.bool_], pid: Ints, start: Ints, end: Ints) -> Ints:
    lanes = np.full(len(df), -1, np.int64)
    rows = np.flatnonzero(~synchronous)
    if len(rows):
        scope = df["scope"].cat.codes.to_numpy()[rows].astype(np.int64)
        group, _ = pd.factorize(pid[rows] * (int(scope.max()) + 1) + scope)
        slot = interval_slots(group.astype(np.int64), start[rows], end[rows])
        lanes[rows] = pd.factorize(group * (int(slot.max()) + 1) + slot)[0]
    return lanes


def _paired(
    df: pd.DataFrame, lengths: Ints, synchronous: NDArray[np.bool_], start: Ints, end: Ints
) -> NDArray[np.bool_]:
    """The rows of warps in which a zero-length span stands at an edge that would nest it wrongly.

    Perfetto closes a complete event that ends at T before one that starts at T, and of those starting together
    opens the longer first: a zero-length span at its parent's end falls out of it, one before a longer sibling
    falls into that.
    """
    rows = np.flatnonzero(synchronous)
    parent = df["parent"].to_numpy()[rows]
    empty = end[rows] == start[rows]
    wrong = empty & (parent >= 0) & (end[parent] <= start[rows])
    following = start[rows[1:]] == start[rows[:-1]]
    longer = end[rows[1:]] > end[rows[:-1]]
    wrong[:-1] |= empty[:-1] & following & longer
    run = np.repeat(np.arange(len(lengths)), lengths)
    bad = np.zeros(len(lengths), np.bool_)
    bad[run[rows[wrong]]] = True
    return np.repeat(bad, lengths) & synchronous
