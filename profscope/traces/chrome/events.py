"""Spans as trace events, as text: names of tracks, and a line for each span (async ones take two).

    X       a complete event: synchronous spans
    i       an instant: marks
    b, e    begin and end on an async track: what is in flight

Arrows lead from what was in flight to the wait that ended it: the events of both name the flow (`bind_id`),
so they are bound by what they are and not by where they lie. An event can name one flow only; where a wait
ended several, the arrow runs through all of them, in order, to the wait.

Of events at one time Perfetto closes what ends before it opens what starts, longest first. So a span of no
length may show a level above or below its place; all others stand where their depth says. Begin and end
events (B, E) for synchronous spans would not help: such an end sorts before its own begin.
"""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import SITE_COLUMNS
from profscope.schema import payload_names
from profscope.traces.chrome.overview import micros, thread_lines
from profscope.traces.chrome.text import string_text
from profscope.traces.tracks import Tracks, drawn_name, payload_name, root_spans, warp_name

__all__ = ["EventLines", "name_lines"]

Ints = NDArray[np.int64]
_PHASES = {"mark": '"ph":"i","s":"t"', "async": '"ph":"b"'}
_FLOW_ENDS = ('"flow_out":true', '"flow_in":true,"flow_out":true', '"flow_in":true')
_BEGIN, _STEP, _END = range(3)


class EventLines:
    """The event lines of a span table, made block by block."""

    def __init__(
        self, df: pd.DataFrame, site: Ints, table: pd.DataFrame, tracks: Tracks, origin_ns: int
    ) -> None:
        """`site` and `table` are those of `profscope.analysis.spans.rows.sites`."""
        self._rows = (
            site,
            df["iteration"].to_numpy(),
            tracks.run,
            tracks.async_lane,
            df["start_ns"].to_numpy() - origin_ns,
            df["duration_ns"].to_numpy(),
        )
        self._kinds = table["kind"].tolist()
        self._heads = _site_heads(table)
        names = map(drawn_name, table["scope"], self._kinds)
        self._async_ends = [
            f'{{"name":{string_text(name)},"cat":{string_text(kind)},"ph":"e"'
            for name, kind in zip(names, self._kinds, strict=True)
        ]
        places = tracks.table[["pid", "tid"]].to_numpy()[tracks.track].tolist()
        self._places = [f',"pid":{pid},"tid":{tid},"ts":' for pid, tid in places]
        whose = (df[name].to_numpy()[tracks.first].tolist() for name in ("cta", "launch"))
        self._whose = [f',"cta":{cta},"launch":{launch}}}' for cta, launch in zip(*whose, strict=True)]
        self._payloads = [_payload(df[name]) for name in payload_names(df)]
        self._flow, self._flow_end = _flow_ends(df)

    def block(self, begin: int, end: int) -> bytes:
        """The lines of rows begin..end (at most the table's rows), in order, a comma before each."""
        rows = slice(begin, end)
        columns = [column[rows].tolist() for column in self._rows]
        lines = [""]
        each = zip(*columns, self._values(rows), self._flows(rows), strict=True)
        for site, iteration, run, lane, start, duration, values, flow in each:
            head, place = self._heads[site], self._places[run]
            iteration = f',"iter":{iteration}' if iteration >= 0 else ""
            line = f"{head}{iteration}{values}{self._whose[run]}{place}{micros(start)}"
            if lane >= 0:
                of_lane = f',"id2":{{"local":"{lane:#x}"}}'
                lines.append(f"{line}{of_lane}{flow}}}")
                lines.append(f"{self._async_ends[site]}{of_lane}{place}{micros(start + duration)}}}")
            elif self._kinds[site] == "mark":
                lines.append(f"{line}{flow}}}")
            else:
                lines.append(f'{line},"dur":{micros(duration)}{flow}}}')
        return ",\n".join(lines).encode()

    def _values(self, rows: slice) -> list[str]:
        """Of each row the values that it carries, as parts of its args."""
        own = [[texts[at] for at in index[rows].tolist()] for texts, index in self._payloads]
        return ["".join(each) for each in zip(*own, strict=True)] if own else [""] * len(self._rows[0][rows])

    def _flows(self, rows: slice) -> list[str]:
        own = zip(self._flow[rows].tolist(), self._flow_end[rows].tolist(), strict=True)
        return [f',"bind_id":"{flow:#x}",{_FLOW_ENDS[end]}' if flow >= 0 else "" for flow, end in own]


def _site_heads(sites: pd.DataFrame) -> list[str]:
    """By site, what its lines start with, up to what their spans have of their own."""
    rows = list(zip(*(sites[name].tolist() for name in SITE_COLUMNS), strict=True))
    home = {kernel: file for kernel, _, kind, file, *_ in rows if kind == "kernel"}
    heads = []
    for kernel, scope, kind, file, line, path in rows:
        # Within a kernel only what lies in another file needs to say so.
        source = "" if kind != "kernel" and home.get(kernel) == file else f'"file":{string_text(file)},'
        path = f',"call_path":{string_text(path)}' if path else ""
        named = f'"name":{string_text(drawn_name(scope, kind))},"cat":{string_text(kind)}'
        phase = _PHASES.get(kind, '"ph":"X"')
        heads.append(f'{{{named},{phase},"args":{{{source}"line":{line}{path}')
    return heads


def _payload(column: "pd.Series[Any]") -> tuple[list[str], Ints]:
    """The column's values as parts of args, each distinct one spelled once, and each row's; 0 is no value."""
    name = string_text(payload_name(column))
    if column.dtype == "category":
        texts = [f",{name}:{string_text(str(value))}" for value in column.cat.categories]
        return ["", *texts], column.cat.codes.to_numpy().astype(np.int64) + 1
    carried = np.flatnonzero(column.notna().to_numpy())
    plain = np.float64 if column.dtype == "float64" else np.int64
    distinct, position = np.unique(column.to_numpy()[carried].astype(plain), return_inverse=True)
    index = np.zeros(len(column), np.int64)
    index[carried] = position + 1
    return ["", *(f",{name}:{_number(value)}" for value in distinct.tolist())], index


def _number(value: float) -> str:
    text = json.dumps(value)
    return text if math.isfinite(value) else f'"{text}"'


def _flow_ends(df: pd.DataFrame) -> tuple[Ints, Ints]:
    """Each row's flow, -1 if none, and which of _FLOW_ENDS it is.

    A flow runs through all the intervals that one wait ended, as they began, to the wait. Numbers are used
    once: an event that ends a flow does not close it. Arrows run forward in time: what did not begin before
    its wait has none, as with a consumer that waits before its producer has started the copy.
    """
    wait, start = df["wait"].to_numpy(), df["start_ns"].to_numpy()
    rows = np.flatnonzero((wait >= 0) & (wait < len(df)))
    rows = rows[start[rows] < start[wait[rows]]]
    rows = rows[np.lexsort((start[rows], wait[rows]))]
    by = wait[rows]
    flow, end = np.full(len(df), -1, np.int64), np.zeros(len(df), np.int64)
    first = np.diff(by, prepend=-1) != 0
    flow[rows] = flow[by] = np.cumsum(first) - 1
    end[rows], end[by] = _STEP, _END
    end[rows[first]] = _BEGIN
    return flow, end


def name_lines(df: pd.DataFrame, tracks: Tracks, emulated: bool, device_is: str) -> list[str]:
    """The events that name and order processes (a kernel's part on an SM) and threads (warps of CTA slots).

    device_is: what their numbers of devices are of. Perfetto sorts processes by name where they have as many
    events: so numbers of SMs are as wide as the widest, in spaces that no browser shows.
    """
    table = tracks.table
    lines = []
    several = [table[name].nunique() > 1 for name in ("device", "kernel")]
    widest = len(str(table["sm"].max()))
    numbers = table[["device", "kernel", "sm", "pid"]].drop_duplicates().to_numpy().tolist()
    for device, kernel, sm, pid in numbers:
        # What another tool recorded may know no SM and no warp.
        levels = [f"{device_is} {device}"] if several[0] or sm < 0 else []
        levels += [tracks.kernels[kernel]] if several[1] and kernel >= 0 else []
        levels += [f"SM {sm:>{widest}}"] if sm >= 0 else []
        name = " ".join(levels) + (" (emulated)" if emulated else "")
        lines += thread_lines("process", pid, 0, name, pid)
    columns = table[["pid", "tid", "slot", "warp", "lane"]].to_numpy().tolist()
    for (pid, tid, slot, warp, lane), root in zip(columns, root_spans(df, tracks), strict=True):
        name = f"CTA slot {slot} {warp_name(warp, *root)}" if warp >= 0 else f"kernels {slot}"
        name += f" lane {lane}" if lane else ""
        lines += thread_lines("thread", pid, tid, name, tid)
    return lines
