"""Idle times of a GPU, and whether the host was late."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.program.host_scopes import why_no_gpu_events
from profscope.analysis.spans.rows import Ints
from profscope.schema import GPU_KINDS, Tables

__all__ = ["GPU_GAP_DTYPES", "gpu_gaps"]

GPU_GAP_DTYPES: Final = {
    "rank": "int32",
    "device": "int32",
    "start_unix_ns": "int64",
    "duration_ns": "int64",
    "host_late_ns": "Int64",
    "before": "str",
    "after": "str",
    "host": "int64",
    "call_path": "str",
}
"""The columns of `gpu_gaps`, with their pandas dtypes, in order."""


def gpu_gaps(tables: Tables) -> pd.DataFrame:
    """Each time between the first and the last event of a GPU when nothing ran on it, the longest first.

        device        start_unix_ns  duration_ns  host_late_ns  before          after        host  call_path
             0  1763830000123456789        91000         88200  softmax_kernel  Memcpy HtoD     4  step > ...

    before, after: the event that ended last, and the next one; host, call_path: of the next one.
    host_late_ns: the part of the gap before the launching call returned: the GPU waited for the host. In the
    rest, the launch was on its way, or the GPU waited for another stream. Missing if the call is unknown.

    attrs["devices"] has by (rank, device) "busy_ns", "idle_ns" and "idle_share", between its first and last
    event; attrs["not_measured"]: the reason if there are no rows.
    """
    events = tables.events
    rows = np.flatnonzero(events["kind"].isin(GPU_KINDS))
    if not len(rows):
        empty = answer_frame([], GPU_GAP_DTYPES, [f"gaps: {why_no_gpu_events(tables)}"])
        empty.attrs["devices"] = {}
        return empty
    rank, device, start, end, parent = (
        events[name].to_numpy() for name in ("rank", "device", "start_unix_ns", "end_unix_ns", "parent")
    )
    rows = rows[np.lexsort((start[rows], device[rows], rank[rows]))]
    first = np.flatnonzero(np.diff(rank[rows], prepend=-2) | np.diff(device[rows], prepend=-2))
    until = _latest_ends(start[rows], end[rows], first)
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(end[rows] == until, number, 0))  # the one that ended at `until`
    is_gap = start[rows[1:]] > until[:-1]
    is_gap[first[1:] - 1] = False  # the next event is another GPU's
    at = np.flatnonzero(is_gap)
    after, before, begin = rows[at + 1], rows[last[at]], until[at]
    duration = start[after] - begin
    call = parent[after]
    late = np.clip(end[np.maximum(call, 0)] - begin, 0, duration)
    columns = {
        "rank": rank[after],
        "device": device[after],
        "start_unix_ns": begin,
        "duration_ns": duration,
        "host_late_ns": pd.arrays.IntegerArray(late, call < 0),
        "before": events["name"].iloc[before].astype("str").to_numpy(),
        "after": events["name"].iloc[after].astype("str").to_numpy(),
        "host": events["host"].to_numpy()[after],
        "call_path": events["call_path"].iloc[after].astype("str").to_numpy(),
    }
    table = pd.DataFrame(columns).sort_values("duration_ns", ascending=False, kind="stable")
    table = table[list(GPU_GAP_DTYPES)].astype(GPU_GAP_DTYPES).reset_index(drop=True)
    of = np.searchsorted(first, at, side="right") - 1
    idle = np.zeros(len(first), np.int64)
    np.add.at(idle, of, duration)
    whole = until[np.append(first[1:], len(rows)) - 1] - start[rows[first]]
    table.attrs["devices"] = {
        (of_rank, of_device): {
            "busy_ns": all_ns - idle_ns,
            "idle_ns": idle_ns,
            "idle_share": idle_ns / max(1, all_ns),
        }
        for of_rank, of_device, all_ns, idle_ns in zip(
            rank[rows[first]].tolist(),
            device[rows[first]].tolist(),
            whole.tolist(),
            idle.tolist(),
            strict=True,
        )
    }
    table.attrs["not_measured"] = []
    return table


def _latest_ends(start: Ints, end: Ints, first: Ints) -> Ints:
    """By event, the latest end of it and of those before it on its GPU. first: where those of a GPU begin."""
    gpu = np.repeat(np.arange(len(first)), np.diff(first, append=len(start)))
    since = start[first][gpu]
    apart = gpu * (int((end - since).max()) + 1)  # so that no GPU reaches the next one
    return np.maximum.accumulate(end - since + apart) - apart + since
