"""Trace events of a span table, as text: names of tracks, and a line for each span (some need two).

X       a complete event: most spans
B, E    begin and end: the spans of a warp in which complete events would nest wrongly (`Tracks.paired`)
i       an instant: marks
b, e    begin and end on an async track: what is in flight
"""

import json

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.export.columns import run_starts
from profscope.export.lines import (
    Column,
    Constant,
    Lines,
    Microseconds,
    Number,
    Text,
    join_lines,
    make_lines,
    text_table,
)
from profscope.export.tracks import Tracks
from profscope.summary import sites

__all__ = ["EventLines", "name_events"]

Ints = NDArray[np.int64]
PHASES = {"X": '"ph":"X"', "B": '"ph":"B"', "i": '"ph":"i","s":"t"', "b": '"ph":"b"'}


class EventLines:
    """The event lines of a span table, made block by block.

    Each line begins with the comma that ends the line before it, so that no line needs to know whether it is last.
    """

    def __init__(self, df: pd.DataFrame, tracks: Tracks, origin_ns: int) -> None:
        self._start = df["start_ns"].to_numpy() - origin_ns
        self._duration = df["duration_ns"].to_numpy()
        self._iteration = df["iteration"].to_numpy()
        self._depth = df["depth"].to_numpy()
        self._site, table = sites(df)
        starts = run_starts(df)
        self._run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(df)))
        self._lane = tracks.async_lane
        self._phase = np.where(tracks.paired, "B", "X")
        self._phase[(df["kind"] == "mark").to_numpy()] = "i"
        self._phase[(df["kind"] == "async").to_numpy()] = "b"
        self._simple = bool((self._phase == "X").all())
        self._closed, self._closed_after = _closings(self._depth, np.flatnonzero(self._phase == "B"), starts)
        self._site_text = {name: text_table(_site_texts(table, phase)) for name, phase in PHASES.items()}
        self._async_end_text = text_table([_event_start(*site, '"ph":"e"') for site in _names(table)])
        self._end_text = text_table([',\n{"ph":"E"'])
        places = tracks.table[["pid", "tid"]].to_numpy()[tracks.track[starts]].tolist()
        self._place_text = text_table([f',"pid":{pid},"tid":{tid},"ts":' for pid, tid in places])
        owners = zip(df["cta"].to_numpy()[starts], df["launch"].to_numpy()[starts], places, strict=True)
        self._run_text = text_table(
            [
                f',"cta":{cta},"launch":{launch}}},"pid":{pid},"tid":{tid},"ts":'
                for cta, launch, (pid, tid) in owners
            ]
        )
        lanes = int(self._lane.max(initial=-1)) + 1
        self._lane_text = text_table([f',"id2":{{"local":"{lane:#x}"}}' for lane in range(lanes)])

    def block(self, begin: int, end: int) -> bytes:
        """The lines of rows begin..end (at most the table's rows), in order."""
        rows = np.arange(begin, min(end, len(self._start)))
        if self._simple:
            return join_lines([(rows, self._opening(rows, "X"))])
        # Keys order the lines after one row: its own, its async end, then the ends of spans whose last row it is.
        step = int(self._depth.max()) + 3
        pieces = [(chosen * step, self._opening(chosen, name)) for name, chosen in self._by_phase(rows)]
        asynchronous = rows[self._phase[rows] == "b"]
        pieces.append((asynchronous * step + 1, self._async_end(asynchronous)))
        first, last = np.searchsorted(self._closed_after, [begin, end])
        closed = self._closed[first:last]
        keys = (self._closed_after[first:last] + 1) * step - 1 - self._depth[closed]
        pieces.append((keys, self._closing(closed)))
        return join_lines([(keys, lines) for keys, lines in pieces if len(keys)])

    def _by_phase(self, rows: Ints) -> list[tuple[str, Ints]]:
        return [(name, rows[self._phase[rows] == name]) for name in PHASES]

    def _opening(self, rows: Ints, phase: str) -> Lines:
        iteration = self._iteration[rows]
        text = Text(self._site_text[phase], 2 * self._site[rows] + (iteration >= 0))
        columns: list[Column] = [Number(iteration), Text(self._run_text, self._run[rows])]
        columns.append(Microseconds(self._start[rows]))
        if phase == "X":
            columns += [Constant(',"dur":'), Microseconds(self._duration[rows])]
        elif phase == "b":
            columns.append(Text(self._lane_text, self._lane[rows]))
        return make_lines(text, *columns, Constant("}"))

    def _async_end(self, rows: Ints) -> Lines:
        text = Text(self._async_end_text, self._site[rows])
        place, lane = Text(self._place_text, self._run[rows]), Text(self._lane_text, self._lane[rows])
        return make_lines(
            text, place, Microseconds(self._start[rows] + self._duration[rows]), lane, Constant("}")
        )

    def _closing(self, rows: Ints) -> Lines:
        text = Text(self._end_text, np.zeros_like(rows))
        place = Text(self._place_text, self._run[rows])
        return make_lines(text, place, Microseconds(self._start[rows] + self._duration[rows]), Constant("}"))


def name_events(tracks: pd.DataFrame, emulated: bool) -> list[str]:
    """The events that name and order processes (the SMs) and threads (the warps of each CTA slot)."""
    events = []
    several = tracks["device"].nunique() > 1
    for (device, sm, pid), _ in tracks.groupby(["device", "sm", "pid"], sort=True):
        name = f"GPU {device} SM {sm}" if several else f"SM {sm}"
        name += " (emulated)" if emulated else ""
        events += [
            _metadata("process_name", pid, 0, name=name),
            _metadata("process_sort_index", pid, 0, sort_index=pid),
        ]
    for row in tracks.itertuples(index=False):
        name = f"CTA slot {row.slot} warp {row.warp}" + (f" lane {row.lane}" if row.lane else "")
        events.append(_metadata("thread_name", row.pid, row.tid, name=name))
        events.append(_metadata("thread_sort_index", row.pid, row.tid, sort_index=row.tid))
    return events


def _metadata(event: str, pid: int, tid: int, **args: object) -> str:
    return json.dumps({"name": event, "ph": "M", "pid": pid, "tid": tid, "args": args}, separators=(",", ":"))


def _names(sites: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(sites["scope"], sites["kind"], strict=True))


def _event_start(name: str, kind: str, phase: str) -> str:
    return f',\n{{"name":{json.dumps(name)},"cat":{json.dumps(kind)},{phase}'


def _site_texts(sites: pd.DataFrame, phase: str) -> list[str]:
    """For each site two texts: without and with an iteration to follow."""
    home = sites[sites["kind"] == "kernel"].drop_duplicates("kernel").set_index("kernel")["file"]
    texts = []
    for row in sites.itertuples(index=False):
        at_home = row.kind != "kernel" and home.get(row.kernel) == row.file
        file = "" if at_home else f'"file":{json.dumps(row.file)},'
        text = f'{_event_start(row.scope, row.kind, phase)},"args":{{{file}"line":{row.line}'
        texts += [text, text + ',"iter":']
    return texts


def _closings(depth: Ints, rows: Ints, runs: Ints) -> tuple[Ints, Ints]:
    """For spans drawn as begin and end: the spans, and the last row of each one's subtree, in order of that row.

    `rows` holds whole warps but for async spans and marks, which end nothing; `runs` is where each warp starts.
    """
    last = np.empty(len(rows), np.int64)
    for level in np.unique(depth[rows]).tolist():
        at = np.flatnonzero(depth[rows] == level)
        boundary = np.union1d(rows[depth[rows] <= level], np.append(runs, len(depth)))
        last[at] = boundary[np.searchsorted(boundary, rows[at], side="right")] - 1
    # After one row the deepest span closes first.
    order = np.lexsort((-depth[rows], last))
    return rows[order], last[order]
