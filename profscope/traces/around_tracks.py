"""Tracks of host scopes and events: one for each thread of the host and each stream of a GPU.

They are drawn on the axis of the spans, the GPU's timer, to within the error of `host_times()`; of merged
ranks that axis is the clock of rank 0's host, as their own times are. Where nobody knows how far the clocks
are apart (the emulator, several GPUs of one process), they are in the file's tables alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.program.host_times import on_timer
from profscope.analysis.ranks.collectives import host_clock_error_ns
from profscope.analysis.ranks.skew import are_aligned
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
    """None if there is nothing to draw, or if its time is unknown."""
    host, events = tables.host, tables.events
    unix = [np.append(host[name], events[name]) for name in ("start_unix_ns", "end_unix_ns")]
    times = [_on_axis(tables, each) for each in unix]
    if not len(unix[0]) or times[0] is None or times[1] is None:
        return None
    start, end = times[0], np.maximum(times[1], times[0])
    rank = np.append(host["rank"], events["rank"])
    device, stream, thread = (
        np.append(np.full(len(host), -1), events["device"]),
        np.append(np.full(len(host), -1), events["stream"]),
        np.append(host["thread"], events["thread"]),
    )
    keys, place = np.unique(np.stack([rank, device, stream, thread]), axis=1, return_inverse=True)
    tracks: list[Track] = []
    several = len(np.unique(rank)) > 1
    for number, (of_rank, gpu, of_stream, of_thread) in enumerate(keys.T.tolist()):
        process, name = ("host", f"thread {of_thread}") if gpu < 0 else (f"GPU {gpu}", f"stream {of_stream}")
        process = f"rank {of_rank} {process}" if several else process
        rows = np.flatnonzero(place.reshape(-1) == number)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        lanes = nesting_lanes(start[rows], end[rows])
        for lane in range(int(lanes.max()) + 1):
            more = f" lane {lane}" if lane else ""
            tracks.append(Track(process, name + more, rows[lanes == lane]))
    names = [*host["scope"].tolist(), *events["name"].astype("str").tolist()]
    kinds = [*["scope"] * len(host), *events["kind"].astype("str").tolist()]
    return AroundTracks(start, end, names, kinds, [*_of_scopes(host), *_of_events(events)], tracks)


def _on_axis(tables: Tables, times_unix_ns: Ints) -> Ints | None:
    """Times of the host, or of rank 0's, on the axis of the spans; None where these cannot be compared."""
    if len(tables.metadata.get("ranks") or []) < 2:
        on_axis: Ints | None = on_timer(tables, times_unix_ns)
        return on_axis
    known = host_clock_error_ns(tables) is not None and (are_aligned(tables) or not len(tables.launches))
    return times_unix_ns if known else None


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
