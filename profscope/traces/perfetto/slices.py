"""In which order a span table is drawn track by track: what a format of begin and end events needs.

Of a warp's track, spans in pre-order with the depth each is drawn at; of a lane, its intervals one by one.
Begin and end events in this order nest as the spans do, also those of no length.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.traces.tracks import Tracks, stable_order

__all__ = ["Drawing", "draw", "nested_depth"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Drawing:
    """The rows of a span table, track by track: those of `Tracks.table`, then the lanes.

    rows   the table's rows as they are drawn, shape (rows,)
    depth  how deep each of `rows` lies on its track; after a row comes one at most a level deeper
    first  where each track's rows begin in `rows`, and at the end their number, shape (tracks + 1,)
    """

    rows: Ints
    depth: Ints
    first: Ints


def draw(df: pd.DataFrame, tracks: Tracks) -> Drawing:
    """Order a span table's rows by its tracks."""
    start = df["start_ns"].to_numpy()
    rows = _run_by_run(tracks, start)
    asynchronous = (tracks.async_lane >= 0)[rows]
    in_lanes = _lane_by_lane(rows[asynchronous], tracks.async_lane, start)
    rows = rows[~asynchronous]
    depth = df["depth"].to_numpy()[rows].astype(np.int64)
    run = tracks.run[rows]
    mark = (df["kind"] == "mark").to_numpy()
    end = start + np.where(mark, 0, df["duration_ns"])
    strays = np.union1d(tracks.spread, _runs_of_wrong_depth(run, depth, mark[rows]))
    strays = np.union1d(strays, _runs_that_do_not_nest(run, depth, start[rows], end[rows]))
    bounds = np.flatnonzero(np.diff(run, prepend=-1, append=-1))
    of_stray = np.isin(run[bounds[:-1]], strays)
    for first, last in zip(bounds[:-1][of_stray].tolist(), bounds[1:][of_stray].tolist(), strict=True):
        mine = rows[first:last]
        mine = mine[np.lexsort((-end[mine], start[mine]))]
        rows[first:last], depth[first:last] = mine, nested_depth(start[mine], end[mine])
    counts = np.concatenate(
        [
            np.bincount(tracks.track[run], minlength=len(tracks.table)),
            np.bincount(tracks.async_lane[in_lanes]),
        ]
    )
    return Drawing(
        np.concatenate([rows, in_lanes]),
        np.concatenate([depth, np.zeros(len(in_lanes), np.int64)]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def nested_depth(start: Ints, end: Ints) -> Ints:
    """How many spans of a lane each lies in; those are in order of their start, the longest first."""
    depth = np.zeros(len(start), np.int64)
    open_ends: list[int] = []
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        depth[at] = len(open_ends)
        open_ends.append(finish)
    return depth


def _run_by_run(tracks: Tracks, start: Ints) -> Ints:
    """All rows, ordered by their run's track, their run's start, and their number."""
    rank = np.empty(len(tracks.first), np.int64)
    rank[np.lexsort((tracks.first, start[tracks.first], tracks.track))] = np.arange(len(rank))
    # Neighbours of one run move together, so there is little to sort.
    begin = np.flatnonzero(np.diff(tracks.run, prepend=-1))
    length = np.diff(begin, append=len(tracks.run))
    order = np.lexsort((begin, rank[tracks.run[begin]]))
    begin, length = begin[order], length[order]
    rows: Ints = np.arange(len(tracks.run)) + np.repeat(begin - (np.cumsum(length) - length), length)
    return rows


def _lane_by_lane(rows: Ints, async_lane: Ints, start: Ints) -> Ints:
    """Async rows, ordered by lane and start."""
    lane = async_lane[rows]
    rows = rows[stable_order(lane)]
    lane, at = async_lane[rows], start[rows]
    if ((lane[1:] == lane[:-1]) & (at[1:] < at[:-1])).any():
        rows = rows[np.lexsort((at, lane))]
    return rows


def _runs_of_wrong_depth(run: Ints, depth: Ints, mark: NDArray[np.bool_]) -> Ints:
    """The runs whose depth leaps or does not begin at 0, or has something inside a mark."""
    limit = np.zeros(len(depth), np.int64)
    limit[1:] = np.where(run[1:] == run[:-1], depth[:-1] + ~mark[:-1], 0)
    return np.unique(run[depth > limit])


def _runs_that_do_not_nest(run: Ints, depth: Ints, start: Ints, end: Ints) -> Ints:
    """The runs with spans outside the ones they would be drawn in, as a selection of rows may have."""
    number, wrong = np.arange(len(depth)), []
    for level in range(int(depth.max(initial=0)), 0, -1):
        number = number[depth[number] <= level]
        here = depth[number] == level
        above = np.maximum.accumulate(np.where(depth[number] == level - 1, number, 0))[here]
        mine = number[here]
        outside = (start[mine] < start[above]) | (end[mine] > end[above])
        outside[1:] |= (above[1:] == above[:-1]) & (start[mine[1:]] < end[mine[:-1]])
        wrong.append(run[mine[outside]])
    return np.unique(np.concatenate(wrong)) if wrong else np.zeros(0, np.int64)
