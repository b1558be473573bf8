"""The tables of the program around the kernels: scopes of the host's code, and Kineto's events, each with its
launching call, scope, launch and call path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.analysis.program.host_times import host_times
from profscope.schema import CALL_ARROW, EVENT_KINDS, HOST_DTYPES, Tables, events_frame, host_frame

__all__ = ["NONE", "enclosing", "innermost", "with_events", "with_host"]

Ints = npt.NDArray[np.int64]
NONE = -1
SEVERAL = -2
"""Where several threads have scopes open, and nobody knows which of them is meant."""


def with_host(tables: Tables, columns: Mapping[str, Sequence[Any]] | None) -> Tables:
    """The tables with `host`. columns: as `HostScopes.columns` gives them.

    A launch is in the innermost scope that was open in its thread and context when it was enqueued, as its
    mark says (see `host_scopes.launched_in`); in none if that scope is not among the columns, as at the end
    of a spool whose program was killed.

    Raises KeyError or ValueError for damaged columns.
    """
    names = () if columns is None else columns["scope"]
    scope = tables.launches["host"].to_numpy(np.int64)
    launches = tables.launches.assign(host=np.where(scope < len(names), scope, NONE))
    if columns is None or not len(names):
        return replace(tables, launches=launches)
    rank = int((tables.metadata.get("job") or {}).get("rank", -1))
    own = {name: columns[name] for name in HOST_DTYPES if name != "rank"}
    host = host_frame({**own, "rank": [rank] * len(names), **_metrics(columns["metrics"])})
    return replace(tables, host=host, launches=launches)


def innermost(places: Ints, begin: Ints, end: Ints, thread: Ints) -> Ints:
    """For each place the row whose half-open range it is in and that began last, int64 of shape (places,).

    Rows are in order of beginning. NONE where no range has it, SEVERAL where ranges of several threads do.
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first, last = np.searchsorted(ordered, begin), np.searchsorted(ordered, end)
    together = np.full(len(places), NONE, np.int64)
    for each in np.unique(thread[first < last]).tolist():
        rows = np.flatnonzero((thread == each) & (first < last))
        low, high = int(first[rows].min()), int(last[rows].max())
        own = np.full(high - low, NONE, np.int64)
        for row, at, to in zip(rows.tolist(), first[rows].tolist(), last[rows].tolist(), strict=True):
            own[at - low : to - low] = row
        there = together[low:high]
        together[low:high] = np.where(own == NONE, there, np.where(there == NONE, own, SEVERAL))
    scope = np.empty(len(places), np.int64)
    scope[order] = together
    return scope


def _metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, npt.NDArray[np.float64]]:
    names = sorted({name for row in rows for name in row})
    if set(names) & HOST_DTYPES.keys():
        raise ValueError("a metric is called like a column")
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}


def with_events(tables: Tables, columns: Mapping[str, Sequence[Any]]) -> Tables:
    """The tables with `events`, in order of start. columns: as `around.kineto` gives them.

    Where no scope is open on an event's thread, as on autograd's, it is in that of the only thread that has
    one open. An annotation that is a host scope, too, is no event.
    """
    host = tables.host
    scopes = len(host)
    # Texts as numbers: a row's own are slow to get at.
    code, spelled = pd.factorize(np.array([*host["scope"].tolist(), *columns["name"], ""], object))
    raw = pd.DataFrame(
        {
            name: np.asarray(values, np.bool_ if name == "on_gpu" else np.int64)
            for name, values in columns.items()
            if name not in ("name", "kind", "group")
        }
    )
    raw["name"] = code[scopes:-1]
    raw["kind"] = pd.Categorical(np.array(columns["kind"], object), categories=list(EVENT_KINDS))
    groups, raw["group"] = _groups(columns)
    thread = raw["resource"].where(~raw["on_gpu"], -1).to_numpy(np.int64)
    raw = raw.assign(thread=thread)[~_are_scopes(raw, spelled, thread, host)]
    raw = raw.sort_values("start_unix_ns", kind="stable").reset_index(drop=True)
    on_gpu = raw["on_gpu"].to_numpy(np.bool_)
    around = _around(raw, host, on_gpu)
    parent = np.where(around >= scopes, around - scopes, -1)
    rank = int((tables.metadata.get("job") or {}).get("rank", -1))
    every = np.append(code[:scopes], raw["name"].to_numpy())
    path = _call_paths(np.append(host["parent"].to_numpy(), around), every, spelled, scopes)
    name = pd.Categorical.from_codes(raw["name"], categories=pd.Index(spelled, dtype="str"))
    own = {
        "name": name.remove_unused_categories(),
        "kind": raw["kind"],
        "device": raw["device"].where(raw["on_gpu"], -1),
        "stream": raw["resource"].where(raw["on_gpu"], -1),
        "thread": raw["thread"],
        "start_unix_ns": raw["start_unix_ns"],
        "end_unix_ns": np.maximum(raw["end_unix_ns"], raw["start_unix_ns"]),
        "parent": parent,
        "host": _scopes(around, scopes),
        "launch": np.full(len(raw), NONE),
        "bytes": raw["bytes"],
        "call_path": path,
        "rank": np.full(len(raw), rank),
        "group": _of_groups(raw, around, scopes, groups),
    }
    events = events_frame(own)
    return replace(tables, events=events.assign(launch=_launches(tables, events)))


def _are_scopes(
    raw: pd.DataFrame, spelled: npt.NDArray[Any], thread: Ints, host: pd.DataFrame
) -> npt.NDArray[np.bool_]:
    """Which annotations host scopes have, too: those of `record_function`."""
    known = host[host["source"] == "record_function"]
    pairs = set(zip(known["scope"], known["thread"].tolist(), strict=True))
    same = np.zeros(len(raw), np.bool_)
    rows = np.flatnonzero(raw["kind"] == "annotation")
    names = spelled[raw["name"].to_numpy()[rows]].tolist()
    same[rows] = [pair in pairs for pair in zip(names, thread[rows].tolist(), strict=True)]
    return same


def _around(raw: pd.DataFrame, host: pd.DataFrame, on_gpu: npt.NDArray[np.bool_]) -> Ints:
    """For each event the scope around it, or, from len(host) on, the event around it or that launched it."""
    scopes, around = len(host), np.full(len(raw), -1, np.int64)
    on_host = np.flatnonzero(~on_gpu)
    start, end, thread = (
        np.append(host[name].to_numpy(), raw[name].to_numpy(np.int64)[on_host])
        for name in ("start_unix_ns", "end_unix_ns", "thread")
    )
    inside = enclosing(thread, start, np.maximum(start, end))[scopes:]
    of_event = inside >= scopes
    around[on_host] = np.where(of_event, on_host[np.where(of_event, inside - scopes, 0)] + scopes, inside)
    alone = on_host[inside < 0]
    own = raw["start_unix_ns"].to_numpy(np.int64)[alone]
    open_ns = [host[name].to_numpy() for name in ("start_unix_ns", "end_unix_ns", "thread")]
    around[alone] = np.maximum(innermost(own, *open_ns), NONE)
    around[on_gpu] = _launchers(raw, on_gpu, scopes)
    return around


def _launchers(raw: pd.DataFrame, on_gpu: npt.NDArray[np.bool_], scopes: int) -> Ints:
    """For each event on a GPU the host's call that launched it, as numbers of `_around`.

    Of the host's alone: what is around those began before them, so that no way outwards comes back to where
    it began.
    """
    called = raw["correlation"].where((raw["kind"] == "call") & ~raw["on_gpu"])
    of_call = _row_of(called, raw["correlation"][on_gpu])
    return np.where(of_call >= 0, of_call + scopes, -1)


def _row_of(numbers: pd.Series[Any], wanted: pd.Series[Any]) -> Ints:
    """The last row that has each of the wanted numbers; 0 is none."""
    known = numbers[numbers.notna() & (numbers != 0)].astype("int64")
    rows = pd.Series(known.index.to_numpy(), known.to_numpy())
    rows = rows[~rows.index.duplicated(keep="last")]
    return rows.reindex(wanted.to_numpy(np.int64)).fillna(-1).to_numpy(np.int64)


def _scopes(around: Ints, scopes: int) -> Ints:
    """For each event the scope it is in, through what is around it."""
    scope = np.where(around < scopes, around, -1)
    left = np.flatnonzero(around >= scopes)
    above = around[left] - scopes
    while len(left):
        reached = around[above] < scopes
        scope[left[reached]] = around[above[reached]]
        left, above = left[~reached], around[above[~reached]] - scopes
    return scope


def _groups(columns: Mapping[str, Sequence[Any]]) -> tuple[pd.Index[Any], Ints]:
    """The process groups that there are, "" the first, and the place of each event's among them."""
    rows = len(columns["name"])
    texts = pd.Categorical(["", *(columns.get("group") or [""] * rows)])  # none in older captures
    return texts.categories, texts.codes[1:].astype(np.int64)


def _of_groups(raw: pd.DataFrame, around: Ints, scopes: int, groups: pd.Index[Any]) -> Any:
    """For each collective the group of the operator that it was launched in."""
    group = raw["group"].to_numpy(np.int64).copy()
    outer = np.where((raw["kind"] == "collective").to_numpy(), np.arange(len(raw)), -1)
    left = np.flatnonzero(outer >= 0)
    while len(left):  # a step outwards
        above = around[outer[left]] - scopes
        left, above = left[above >= 0], above[above >= 0]
        outer[left], group[left] = above, group[above]
        left = left[group[left] == 0]
    known: Any = pd.Categorical.from_codes(group, categories=groups)
    return known.remove_unused_categories()


def _call_paths(around: Ints, name: Ints, spelled: npt.NDArray[Any], scopes: int) -> pd.Categorical:
    """The path of what is around each event, by rows of scopes and then events. Each distinct one is spelled
    once. name: each row's, its place in `spelled`."""
    texts: list[str] = [""]
    own = np.full(len(around), -1, np.int64)  # the path that ends with each row
    outer = np.zeros(len(around), np.int64)  # the path around it
    left = np.arange(len(around))
    while len(left):
        above = around[left]
        ready = (above < 0) | (own[np.maximum(above, 0)] >= 0)
        if not ready.any():
            break  # a circle, which no sound capture has
        rows, above = left[ready], above[ready]
        outer[rows] = np.where(above < 0, 0, own[np.maximum(above, 0)])
        keys, code = np.unique(outer[rows] * len(spelled) + name[rows], return_inverse=True)
        own[rows] = len(texts) + code
        for key in keys.tolist():
            before = texts[key // len(spelled)]
            texts.append((before + CALL_ARROW if before else "") + str(spelled[key % len(spelled)]))
        left = left[~ready]
    used, code = np.unique(outer[scopes:], return_inverse=True)
    # Different rows of names may spell one text.
    distinct, place = np.unique(
        np.array([*(texts[each] for each in used.tolist()), ""], object), return_inverse=True
    )
    return pd.Categorical.from_codes(place[:-1][code], categories=pd.Index(distinct, dtype="str"))


def _launches(tables: Tables, events: pd.DataFrame) -> Ints:
    """The launch that each kernel is, by name and time: the middle of a launch lies inside of its kernel."""
    launch = np.full(len(events), NONE, np.int64)
    times = host_times(tables)
    known = times[times["start_unix_ns"].notna()]
    kernels = np.flatnonzero(events["kind"] == "kernel")
    if not len(known) or not len(kernels):
        return launch
    middle = (known["start_unix_ns"] + (known["end_unix_ns"] - known["start_unix_ns"]) // 2).to_numpy(
        np.int64
    )
    names = events["name"].astype("str").to_numpy()[kernels]
    device = events["device"].to_numpy()[kernels]
    start, end = (events[each].to_numpy()[kernels] for each in ("start_unix_ns", "end_unix_ns"))
    places = known["kernel"].to_numpy(), known["device"].to_numpy()
    for rows in known.groupby(["kernel", "device"], sort=False).indices.values():
        mine = np.flatnonzero((names == places[0][rows[0]]) & (device == places[1][rows[0]]))
        if not len(mine):
            continue
        at = np.searchsorted(start[mine], middle[rows], "right") - 1
        inside = (at >= 0) & (middle[rows] <= end[mine[np.maximum(at, 0)]])
        launch[kernels[mine[at[inside]]]] = known["launch"].to_numpy(np.int64)[rows[inside]]
    return launch


def enclosing(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each interval the innermost other one of its thread that it lies in, -1 for none; shape (n,).

    Of equal ones the first lies around the others. Those that only overlap lie in neither.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    order = np.lexsort((-end, start, thread))
    thread, start, end = (np.asarray(each, np.int64)[order] for each in (thread, start, end))
    above = _of_nested(thread, start, end)
    known = np.maximum(above, 0)
    wrong = (above >= 0) & ((end > end[known]) | (thread != thread[known]))
    if wrong.any():  # some only overlap: one by one, on their threads
        for each in np.unique(thread[wrong]).tolist():
            low, high = np.searchsorted(thread, [each, each + 1]).tolist()
            above[low:high] = _one_by_one(start[low:high], end[low:high], low)
    result = np.empty(len(order), np.int64)
    result[order] = np.where(above < 0, -1, order[np.maximum(above, 0)])
    return result


def _of_nested(thread: Ints, start: Ints, end: Ints) -> Ints:
    """The same of intervals in order of thread, start and length, as places in this order, if all nest."""
    number = np.arange(len(start))
    first = np.flatnonzero(np.diff(thread, prepend=thread[0] - 1))
    depth = np.empty(len(start), np.int64)
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(start)], strict=True):
        # What has begun, less what has ended; what has no length ends a little later.
        ends = np.sort(np.maximum(end[low:high], start[low:high] + 1))
        begun = np.arange(high - low)
        depth[low:high] = np.maximum(begun - np.searchsorted(ends, start[low:high], "right"), 0)
    above = np.full(len(start), -1, np.int64)
    for level in range(int(depth.max()), 0, -1):
        number = number[depth[number] <= level]
        outer = np.maximum.accumulate(np.where(depth[number] == level - 1, number, -1))
        here = depth[number] == level
        above[number[here]] = outer[here]
    return above


def _one_by_one(start: Ints, end: Ints, first: int) -> Ints:
    above = np.full(len(start), -1, np.int64)
    around: list[int] = []
    starts, ends = start.tolist(), end.tolist()
    for at, (begin, finish) in enumerate(zip(starts, ends, strict=True)):
        while around and ends[around[-1]] <= begin and ends[around[-1]] < finish:
            around.pop()
        inside = next((outer for outer in reversed(around) if ends[outer] >= finish), -1)
        above[at] = -1 if inside < 0 else first + inside
        around.append(at)
    return above
