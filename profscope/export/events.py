"""Trace events of a span table, as text: names of tracks, and a line for each span (some need two).

X       a complete event: most spans
B, E    begin and end: the spans of a warp in which complete events would nest wrongly (`Tracks.paired`)
i       an instant: marks
b, e    begin and end on an async track: what is in flight
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.export.jsontext import document_text, string_text
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
from profscope.summary import SITE_COLUMNS, sites

__all__ = ["EventLines", "name_events"]

Ints = NDArray[np.int64]
PHASES = {"X": '"ph":"X"', "i": '"ph":"i","s":"t"', "b": '"ph":"b"'}


class EventLines:
    """The event lines of a span table, made block by block.

    Each line begins with the comma that ends the line before it, so that none needs to know if it is last.
    """

    def __init__(self, df: pd.DataFrame, tracks: Tracks, origin_ns: int) -> None:
        self._start = df["start_ns"].to_numpy() - origin_ns
        self._duration = df["duration_ns"].to_numpy()
        self._iteration = df["iteration"].to_numpy()
        self._site, table = sites(df)
        self._run = tracks.run
        self._lane = tracks.async_lane
        self._rows = {"i": (df["kind"] == "mark").to_numpy(), "b": (df["kind"] == "async").to_numpy()}
        self._rows["X"] = ~(self._rows["i"] | self._rows["b"])
        self._site_text = {name: text_table(_site_texts(table, phase)) for name, phase in PHASES.items()}
        sites_named = zip(table["scope"], table["kind"], strict=True)
        self._async_end_text = text_table([_event_start(*site, '"ph":"e"') for site in sites_named])
        places = tracks.table[["pid", "tid"]].to_numpy()[tracks.track].tolist()
        times = [f',"pid":{pid},"tid":{tid},"ts":' for pid, tid in places]
        owners = zip(
            df["cta"].to_numpy()[tracks.first], df["launch"].to_numpy()[tracks.first], times, strict=True
        )
        self._run_text = text_table(
            [f',"cta":{cta},"launch":{launch}}}{time}' for cta, launch, time in owners]
        )
        self._time_text = text_table(times if self._rows["b"].any() else [])
        lanes = range(int(self._lane.max(initial=-1)) + 1)
        self._lane_text = text_table([f',"id2":{{"local":"{lane:#x}"}}' for lane in lanes])

    def block(self, begin: int, end: int) -> bytes:
        """The lines of rows begin..end (at most the table's rows), in order."""
        rows = np.arange(begin, min(end, len(self._start)))
        pieces = []
        for phase in PHASES:
            chosen = rows[self._rows[phase][rows]]
            if len(chosen):
                pieces.append((2 * chosen, self._opening(chosen, phase)))
            if len(chosen) and phase == "b":
                pieces.append((2 * chosen + 1, self._async_end(chosen)))
        return join_lines(pieces)

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
        time, lane = Text(self._time_text, self._run[rows]), Text(self._lane_text, self._lane[rows])
        end = Microseconds(self._start[rows] + self._duration[rows])
        return make_lines(text, time, end, lane, Constant("}"))


def name_events(tracks: pd.DataFrame, emulated: bool) -> list[str]:
    """The events that name and order processes (the SMs) and threads (the warps of each CTA slot)."""
    events = []
    several = tracks["device"].nunique() > 1
    for device, sm, pid in tracks[["device", "sm", "pid"]].drop_duplicates().to_numpy().tolist():
        # What another tool recorded may know no SM and no warp.
        name = f"GPU {device}" if sm < 0 else f"GPU {device} SM {sm}" if several else f"SM {sm}"
        name += " (emulated)" if emulated else ""
        events += [
            _metadata("process_name", pid, 0, name=name),
            _metadata("process_sort_index", pid, 0, sort_index=pid),
        ]
    for pid, tid, slot, warp, lane in tracks[["pid", "tid", "slot", "warp", "lane"]].to_numpy().tolist():
        name = f"CTA slot {slot} warp {warp}" if warp >= 0 else f"kernels {slot}"
        name += f" lane {lane}" if lane else ""
        events.append(_metadata("thread_name", pid, tid, name=name))
        events.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
    return events


def _metadata(event: str, pid: int, tid: int, **args: object) -> str:
    return document_text({"name": event, "ph": "M", "pid": pid, "tid": tid, "args": args})


def _event_start(name: str, kind: str, phase: str) -> str:
    return f',\n{{"name":{string_text(name)},"cat":{string_text(kind)},{phase}'


def _site_texts(sites: pd.DataFrame, phase: str) -> list[str]:
    """For each site two texts: without and with an iteration to follow."""
    rows = list(zip(*(sites[name].tolist() for name in SITE_COLUMNS), strict=True))
    home = {kernel: file for kernel, _, kind, file, _ in rows if kind == "kernel"}
    texts = []
    for kernel, scope, kind, file, line in rows:
        # Within a kernel only what lies in another file needs to say so.
        source = "" if kind != "kernel" and home.get(kernel) == file else f'"file":{string_text(file)},'
        text = f'{_event_start(scope, kind, phase)},"args":{{{source}"line":{line}'
        texts += [text, text + ',"iter":']
    return texts
