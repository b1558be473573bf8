"""Where host scopes and events are drawn: a track for each thread of the host and each stream of a GPU.

They are drawn on the axis of the spans, the GPU's timer, to within the error of `host_times()`. Where nobody
knows how far the clocks are apart (the emulator, several GPUs), they are in the file's tables alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.host_times import on_timer
from profscope.schema import HOST_DTYPES, Tables
from profscope.traces.tracks import nesting_lanes

__all__ = ["AroundTracks", "Track", "around_tracks"]

Ints = NDArray[np.int64]


class Track(NamedTuple):
    """process: what it is shown in; rows: places in the columns of `AroundTracks`, in order of start, the
    longest first: on one track they nest."""

    process: str
    name: str
    rows: Ints


class AroundTracks(NamedTuple):
    """start_ns, end_ns: on the spans' axis; name, kind: texts; args: what else is known, by row."""

    start_ns: Ints
    end_ns: Ints
    name: list[str]
    kind: list[str]
    args: list[dict[str, object]]
    tracks: list[Track]


def around_tracks(tables: Tables) -> AroundTracks | None:
    """None where there is nothing to draw, or nobody knows when."""
    host, events = tables.host, tables.events
    unix = [np.append(host[name], events[name]) for name in ("start_unix_ns", "end_unix_ns")]
    times = [on_timer(tables, each) for each in unix]
    if not len(unix[0]) or times[0] is None or times[1] is None:
        return None
    start, end = times[0], np.maximum(times[1], times[0])
    device, stream, thread = (
        np.append(np.full(len(host), -1), events["device"]),
        np.append(np.full(len(host), -1), events["stream"]),
        np.append(host["thread"], events["thread"]),
    )
    keys, place = np.unique(np.stack([device, stream, thread]), axis=1, return_inverse=True)
    tracks: list[Track] = []
    for number, (gpu, of_stream, of_thread) in enumerate(keys.T.tolist()):
        process, name = ("host", f"thread {of_thread}") if gpu < 0 else (f"GPU {gpu}", f"stream {of_stream}")
        rows = np.flatnonzero(place.reshape(-1) == number)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        lanes = nesting_lanes(start[rows], end[rows])
        for lane in range(int(lanes.max()) + 1):
            more = f" lane {lane}" if lane else ""
            tracks.append(Track(process, name + more, rows[lanes == lane]))
    names = [*host["scope"].tolist(), *events["name"].astype("str").tolist()]
    kinds = [*["scope"] * len(host), *events["kind"].astype("str").tolist()]
    return AroundTracks(start, end, names, kinds, [*_of_scopes(host), *_of_events(events)], tracks)


def _of_scopes(host: pd.DataFrame) -> list[dict[str, object]]:
    metrics = [str(name) for name in host if name not in HOST_DTYPES]
    columns = [host[name].tolist() for name in metrics]
    args = []
    for source, *values in zip(host["source"], *columns, strict=True):
        known = {name: value for name, value in zip(metrics, values, strict=True) if np.isfinite(value)}
        args.append({"source": source, **known})
    return args


def _of_events(events: pd.DataFrame) -> list[dict[str, object]]:
    """Events with the same share theirs."""
    shared: dict[tuple[str, int, int], dict[str, object]] = {}
    paths = events["call_path"].astype("str").tolist()
    columns = zip(paths, events["launch"].tolist(), events["bytes"].tolist(), strict=True)
    return [shared.setdefault(key, _args(*key)) if key not in shared else shared[key] for key in columns]


def _args(path: str, launch: int, size: int) -> dict[str, object]:
    known: dict[str, object] = {"call_path": path} if path else {}
    return known | ({"launch": launch} if launch >= 0 else {}) | ({"bytes": size} if size >= 0 else {})
