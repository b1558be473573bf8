"""Idle times of a GPU, and whether the host was late."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.program.host_scopes import why_no_gpu_events
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
    ours = np.flatnonzero(events["kind"].isin(GPU_KINDS))
    parts, devices = [], {}
    places = events["rank"].to_numpy()[ours], events["device"].to_numpy()[ours]
    for rank, device in sorted(set(zip(*(each.tolist() for each in places), strict=True))):
        part, busy_ns = _of_device(events, ours[(places[0] == rank) & (places[1] == device)])
        idle_ns = int(part["duration_ns"].sum())
        share = idle_ns / max(1, idle_ns + busy_ns)
        devices[rank, device] = {"busy_ns": busy_ns, "idle_ns": idle_ns, "idle_share": share}
        parts.append(part)
    if not parts:
        empty = answer_frame([], GPU_GAP_DTYPES, [f"gaps: {why_no_gpu_events(tables)}"])
        empty.attrs["devices"] = {}
        return empty
    table = pd.concat(parts).sort_values("duration_ns", ascending=False, kind="stable")
    table = table[list(GPU_GAP_DTYPES)].astype(GPU_GAP_DTYPES).reset_index(drop=True)
    table.attrs["devices"] = devices
    table.attrs["not_measured"] = []
    return table


def _of_device(events: pd.DataFrame, rows: np.ndarray) -> tuple[pd.DataFrame, int]:
    """The gaps of a GPU with these events, and how long it was busy."""
    start, end, parent = (events[name].to_numpy() for name in ("start_unix_ns", "end_unix_ns", "parent"))
    rows = rows[np.argsort(start[rows], kind="stable")]
    until = np.maximum.accumulate(end[rows])
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(end[rows] == until, number, 0))  # the one that ended at `until`
    at = np.flatnonzero(start[rows[1:]] > until[:-1])
    after, before, begin = rows[at + 1], rows[last[at]], until[at]
    duration = start[after] - begin
    call = parent[after]
    known = call >= 0
    late = np.clip(end[np.maximum(call, 0)] - begin, 0, duration)
    busy_ns = int(until[-1] - start[rows[0]] - duration.sum())
    columns = {
        "rank": events["rank"].to_numpy()[after],
        "device": events["device"].to_numpy()[after],
        "start_unix_ns": begin,
        "duration_ns": duration,
        "host_late_ns": pd.arrays.IntegerArray(late, ~known),
        "before": events["name"].iloc[before].astype("str").to_numpy(),
        "after": events["name"].iloc[after].astype("str").to_numpy(),
        "host": events["host"].to_numpy()[after],
        "call_path": events["call_path"].iloc[after].astype("str").to_numpy(),
    }
    return pd.DataFrame(columns), busy_ns
