"""Trace events of a span table, as text: names of tracks, and a line for each span (async ones take two).

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
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import SITE_COLUMNS
from profscope.schema import payload_names
from profscope.traces.chrome.lines import (
    Column,
    Constant,
    Hex,
    Microseconds,
    Number,
    Text,
    Words,
    join_lines,
    line_words,
    text_table,
)
from profscope.traces.chrome.overview import named_event
from profscope.traces.chrome.text import string_text
from profscope.traces.tracks import Tracks, drawn_name, payload_name, root_spans, warp_name

__all__ = ["FLOW_ENDS", "EventLines", "PayloadTexts", "flow_ends", "name_events", "payload_texts"]

Ints = NDArray[np.int64]
BEGIN, STEP, END = range(3)
FLOW_ENDS = text_table(['","flow_out":true', '","flow_in":true,"flow_out":true', '","flow_in":true'])


@dataclass(frozen=True)
class PayloadTexts:
    """A payload column as parts of args: `table` looked up by `index`, shape (rows,); 0 is no value."""

    table: Words
    index: NDArray[np.int32]


def payload_texts(column: "pd.Series[Any]") -> PayloadTexts:
    """The column's values, each distinct one spelled once."""
    if column.dtype == "category":
        texts = [f",{string_text(str(column.name))}:{string_text(str(v))}" for v in column.cat.categories]
        return PayloadTexts(text_table(["", *texts]), column.cat.codes.to_numpy().astype(np.int32) + 1)
    carried = np.flatnonzero(column.notna().to_numpy())
    distinct, position = np.unique(column.to_numpy()[carried].astype(_plain(column)), return_inverse=True)
    index = np.zeros(len(column), np.int32)
    index[carried] = position + 1
    texts = [f",{string_text(payload_name(column))}:{_number(value)}" for value in distinct.tolist()]
    return PayloadTexts(text_table(["", *texts]), index)


def flow_ends(df: pd.DataFrame) -> tuple[Ints, NDArray[np.int8]]:
    """Each row's flow, -1 if none, and which of FLOW_ENDS it is; both empty where nothing is in flight.

    A flow runs through all the intervals that one wait ended, as they began, to the wait. Numbers are used
    once: an event that ends a flow does not close it. Arrows run forward in time: what did not begin before
    its wait has none, as with a consumer that waits before its producer has started the copy.
    """
    wait = df["wait"].to_numpy()
    rows = np.flatnonzero((wait >= 0) & (wait < len(df)))
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int8)
    start, by = df["start_ns"].to_numpy(), wait[rows]
    ahead = start[rows] < start[by]
    rows, by = rows[ahead], by[ahead]
    order = np.lexsort((start[rows], by))
    rows, by = rows[order], by[order]
    flow, end = np.full(len(df), -1, np.int64), np.zeros(len(df), np.int8)
    first = np.diff(by, prepend=-1) != 0
    flow[rows] = flow[by] = np.cumsum(first) - 1
    end[rows], end[by] = STEP, END
    end[rows[first]] = BEGIN
    return flow, end


def _plain(column: "pd.Series[Any]") -> type[np.float64] | type[np.int64]:
    return np.float64 if column.dtype == "float64" else np.int64


def _number(value: float) -> str:
    text = json.dumps(value)
    return text if np.isfinite(value) else f'"{text}"'


COMMON, RARE, MARK, ASYNC = range(4)
FORM = 3
"""Forms of lines: complete events of common length and of rare length, instants, begins of async spans."""

PAYLOAD, FLOW = 4, 8
"""Added to a form: the line has values, or the end of an arrow."""

PHASES = {COMMON: '"ph":"X"', RARE: '"ph":"X"', MARK: '"ph":"i","s":"t"', ASYNC: '"ph":"b"'}
COMMON_SHARE = 0.95
"""Lines are padded to a length that fits this share of them: a long name costs only its own lines."""


class EventLines:
    """The event lines of a span table, made block by block.

    Each line begins by closing the event before it, with a brace, a comma and a newline, and leaves its own
    open: none needs to know if it is last, and these four bytes keep the words of the lines aligned.
    """

    def __init__(
        self, df: pd.DataFrame, site: Ints, table: pd.DataFrame, tracks: Tracks, origin_ns: int
    ) -> None:
        """`site` and `table` are those of `profscope.analysis.spans.rows.sites`."""
        self._start = df["start_ns"].to_numpy() - origin_ns
        self._duration = df["duration_ns"].to_numpy()
        self._iteration = df["iteration"].to_numpy()
        self._site, self._run, self._lane = site, tracks.run, tracks.async_lane
        self._text = 2 * site + (self._iteration >= 0)
        texts, self._form = _site_texts(table, np.bincount(self._text, minlength=2 * len(table)))
        self._tables = {
            form: text_table(
                [text if own == form else "" for text, own in zip(texts, self._form, strict=True)]
            )
            for form in PHASES
        }
        named = zip(table["scope"], table["kind"], strict=True)
        ends = [_event_start(drawn_name(*site), site[1], '"ph":"e"') for site in named]
        self._async_ends = text_table(ends)
        places = tracks.table[["pid", "tid"]].to_numpy().tolist()
        place = Text(text_table([f'}},"pid":{pid},"tid":{tid},"ts":' for pid, tid in places]), tracks.track)
        cta, launch = (df[name].to_numpy()[tracks.first] for name in ("cta", "launch"))
        # What all lines of a run share: the end of a begin's args, or of an end's id.
        whose: list[Column] = [
            Constant(',"cta":'),
            Number(cta, b"  -1"),
            Constant(',"launch":'),
            Number(launch),
        ]
        self._args_end = line_words(len(cta), [*whose, place])
        self._id_end = line_words(len(cta), [place])
        lanes = range(int(self._lane.max(initial=-1)) + 1)
        self._lanes = text_table([f',"id2":{{"local":"{lane:#x}"' for lane in lanes])
        self._payloads = [payload_texts(df[name]) for name in payload_names(df)]
        self._flow, self._flow_end = flow_ends(df)
        self._last_flow = int(self._flow.max(initial=0))

    def block(self, begin: int, end: int) -> bytes:
        """The lines of rows begin..end (at most the table's rows), in order; what is in flight comes first.

        Viewers order events by their times, and by their order in the file those of one time and length.
        """
        end = min(end, len(self._start))
        layout = self._form[self._text[begin:end]]
        for payload in self._payloads:
            layout |= np.where(payload.index[begin:end] > 0, PAYLOAD, 0).astype(np.int8)
        if len(self._flow):
            layout |= np.where(self._flow[begin:end] >= 0, FLOW, 0).astype(np.int8)
        if (layout == COMMON).all():  # many blocks; a slice is faster than the same rows one by one
            return self._opening(slice(begin, end), COMMON).tobytes()
        lines, pieces = [], []
        for own in np.unique(layout).tolist():
            chosen = np.flatnonzero(layout == own)
            words = self._opening(begin + chosen, own)
            if own & FORM == ASYNC:
                lines += [words.tobytes(), self._async_end(begin + chosen).tobytes()]
            else:
                pieces.append((chosen, words))
        return b"".join([*lines, join_lines(pieces, end - begin)])

    def _opening(self, rows: Ints | slice, layout: int) -> Words:
        form = layout & FORM
        text = self._text[rows]
        columns: list[Column] = [Text(self._tables[form], text), Number(self._iteration[rows])]
        if layout & PAYLOAD:
            columns += [Text(payload.table, payload.index[rows]) for payload in self._payloads]
        columns += [Text(self._args_end, self._run[rows]), Microseconds(self._start[rows])]
        if form in (COMMON, RARE):
            columns += [Constant(',"dur":'), Microseconds(self._duration[rows])]
        elif form == ASYNC:
            columns += [Text(self._lanes, self._lane[rows]), Constant("}")]
        if layout & FLOW:
            columns += [Constant(',  "bind_id":"0x'), Hex(self._flow[rows], self._last_flow)]
            columns += [Text(FLOW_ENDS, self._flow_end[rows])]
        return line_words(len(text), columns)

    def _async_end(self, rows: Ints) -> Words:
        end = Microseconds(self._start[rows] + self._duration[rows])
        lanes = Text(self._lanes, self._lane[rows])
        where = Text(self._id_end, self._run[rows])
        return line_words(len(rows), [Text(self._async_ends, self._site[rows]), lanes, where, end])


def name_events(df: pd.DataFrame, tracks: Tracks, emulated: bool, device_is: str) -> list[str]:
    """The events that name and order processes (a kernel's part on an SM) and threads (warps of CTA slots).

    device_is: what their numbers of devices are of. Perfetto sorts processes by name where they have as many
    events: so numbers of SMs are as wide as the widest, in spaces that no browser shows.
    """
    table = tracks.table
    events = []
    several = [table[name].nunique() > 1 for name in ("device", "kernel")]
    widest = len(str(table["sm"].max()))
    numbers = table[["device", "kernel", "sm", "pid"]].drop_duplicates().to_numpy().tolist()
    for device, kernel, sm, pid in numbers:
        # What another tool recorded may know no SM and no warp.
        levels = [f"{device_is} {device}"] if several[0] or sm < 0 else []
        levels += [tracks.kernels[kernel]] if several[1] and kernel >= 0 else []
        levels += [f"SM {sm:>{widest}}"] if sm >= 0 else []
        name = " ".join(levels) + (" (emulated)" if emulated else "")
        events += [
            named_event("process_name", pid, 0, name=name),
            named_event("process_sort_index", pid, 0, sort_index=pid),
        ]
    columns = table[["pid", "tid", "slot", "warp", "lane"]].to_numpy().tolist()
    for (pid, tid, slot, warp, lane), root in zip(columns, root_spans(df, tracks), strict=True):
        name = f"CTA slot {slot} {warp_name(warp, *root)}" if warp >= 0 else f"kernels {slot}"
        name += f" lane {lane}" if lane else ""
        events.append(named_event("thread_name", pid, tid, name=name))
        events.append(named_event("thread_sort_index", pid, tid, sort_index=tid))
    return events


def _event_start(name: str, kind: str, phase: str) -> str:
    return f'}},\n{{"name":{string_text(name)},"cat":{string_text(kind)},{phase}'


def _site_texts(sites: pd.DataFrame, lines: Ints) -> tuple[list[str], NDArray[np.int8]]:
    """The texts that lines start with, and their forms: for each site one without and one with an iteration.

    `lines` says how many lines have each text.
    """
    rows = list(zip(*(sites[name].tolist() for name in SITE_COLUMNS), strict=True))
    home = {kernel: file for kernel, _, kind, file, *_ in rows if kind == "kernel"}
    texts, forms = [], []
    for kernel, scope, kind, file, line, path in rows:
        form = {"mark": MARK, "async": ASYNC}.get(kind, COMMON)
        # Within a kernel only what lies in another file needs to say so.
        source = "" if kind != "kernel" and home.get(kernel) == file else f'"file":{string_text(file)},'
        text = f'{_event_start(drawn_name(scope, kind), kind, PHASES[form])},"args":{{{source}"line":{line}'
        text += f',"call_path":{string_text(path)}' if path else ""
        texts += [text, text + ',"iter":']
        forms += [form, form]
    form_of_text = np.array(forms, np.int8)
    lengths = np.array([len(text.encode()) for text in texts], np.int64)
    complete = np.flatnonzero(form_of_text == COMMON)
    shortest = complete[np.argsort(lengths[complete])]
    share = np.cumsum(lines[shortest]) / max(lines[shortest].sum(), 1)
    if len(shortest):
        limit = lengths[shortest[np.searchsorted(share, COMMON_SHARE)]]
        form_of_text[complete[lengths[complete] > limit]] = RARE
    return texts, form_of_text
