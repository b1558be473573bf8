"""Arrows from what was in flight to the wait that ended it, as numbers that begin and end flows.

A flow's number is free again when its wait has begun. An interval takes its lane's, so the numbers say
nothing new and cost next to nothing; one that begins before its lane's number is free gets its own.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.traces.perfetto.slices import Drawing
from profscope.traces.tracks import Tracks

__all__ = ["Arrows", "number_arrows"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Arrows:
    """The flows of a span table.

    begins  the flow each row begins, 0 if none, shape (rows,)
    first   where the flows that a row ends begin in `ends`, shape (rows + 1,)
    ends    the flows that rows end, row by row
    """

    begins: Ints
    first: Ints
    ends: Ints


def number_arrows(df: pd.DataFrame, tracks: Tracks, drawing: Drawing) -> Arrows | None:
    """The arrows of a table; None where it has none.

    Arrows run forward in time: what did not begin before its wait has none, as with a consumer that waits
    before its producer has started the copy.
    """
    wait, start = df["wait"].to_numpy(), df["start_ns"].to_numpy()
    rows = drawing.rows[drawing.first[len(tracks.table)] :]  # lane by lane, in time
    by = wait[rows]
    rows = rows[(by >= 0) & (by < len(df))]
    rows = rows[start[rows] < start[wait[rows]]]
    if not len(rows):
        return None
    by, lane = wait[rows], tracks.async_lane[rows]
    early = np.flatnonzero((lane[1:] == lane[:-1]) & (start[rows[1:]] <= start[by[:-1]])) + 1
    lanes = int(lane.max()) + 1
    crowded = np.zeros(lanes, np.bool_)
    crowded[lane[early]] = True
    own = np.flatnonzero(crowded[lane])
    flow = lane + 1
    flow[own] = lanes + 1 + np.arange(len(own))
    begins = np.zeros(len(df), np.int64)
    begins[rows] = flow
    ends = flow[np.argsort(by, kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(by, minlength=len(df)))]).astype(np.int64)
    return Arrows(begins, first, ends)
