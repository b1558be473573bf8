"""What is drawn around the spans as Chrome trace events, as text, a line each.

A process for each GPU has its launches, and each host and GPU of the program around has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from profscope.schema import Tables
from profscope.traces.around_tracks import AroundTracks
from profscope.traces.chrome.text import json_text, string_text
from profscope.traces.overview import SUMMARY, Bars, launch_args
from profscope.traces.tracks import Tracks, interval_slots, row_devices

__all__ = ["Around", "micros", "thread_lines"]


def micros(ns: int) -> str:
    """Exact: through no float."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}"


def thread_lines(what: str, pid: int, tid: int, name: str, order: int) -> list[str]:
    """The events that name and order a "process" or a "thread"."""
    told = (f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": order})
    return [
        json_text({"name": event, "ph": "M", "pid": pid, "tid": tid, "args": args}) for event, args in told
    ]


@dataclass
class Around:
    """The lines so far. pid, tid: the last numbers that processes and threads have; origin_ns: what times
    count from."""

    pid: int
    tid: int
    origin_ns: int
    lines: list[str] = field(default_factory=list)

    def above(self, tables: Tables, tracks: Tracks, of: str) -> None:
        """Launches. of: what the numbers of devices are of."""
        inside = tracks.table[tracks.table["kernel"] >= 0]  # not what other tools saw from outside
        for device in inside["device"].unique().tolist():
            self._process(f"{of} {device} launches" + " (emulated)" * tables.emulated, -2000)
            for lane, bars in enumerate(_launches(tables, device)):
                self._bars("launches" + f" lane {lane}" * (lane > 0), SUMMARY, bars)

    def program(self, drawn: AroundTracks) -> None:
        """Host scopes and events."""
        process = None
        for track in sorted(drawn.tracks, key=lambda each: each.process):
            if track.process != process:
                process = track.process
                self._process(process, -1000)
            rows = track.rows.tolist()
            names, args = ([of[row] for row in rows] for of in (drawn.name, drawn.args))
            bars = Bars(drawn.start_ns[track.rows], drawn.end_ns[track.rows], names, args)
            self._bars(track.name, [drawn.kind[row] for row in rows], bars)

    def _process(self, name: str, above: int) -> None:
        """above: how far above those with spans it is shown."""
        self.pid += 1
        self.lines += thread_lines("process", self.pid, 0, name, above + self.pid)

    def _bars(self, name: str, kind: str | list[str], bars: Bars) -> None:
        """A thread of the last process."""
        self.tid += 1
        self.lines += thread_lines("thread", self.pid, self.tid, name, self.tid)
        place = f'"pid":{self.pid},"tid":{self.tid}'
        kinds = [kind] * len(bars.name) if isinstance(kind, str) else kind
        times = (bars.start_ns - self.origin_ns).tolist(), (bars.end_ns - bars.start_ns).tolist()
        for start, duration, text, own, args in zip(*times, bars.name, kinds, bars.args, strict=True):
            self.lines.append(
                f'{{"name":{string_text(text)},"cat":"{own}","ph":"X","args":{json_text(args)},'
                f'{place},"ts":{micros(start)},"dur":{micros(duration)}}}'
            )


def _launches(tables: Tables, device: int) -> Iterator[Bars]:
    """Those of a GPU whose times are known, lane by lane."""
    launches = tables.launches.sort_values("start_ns", kind="stable")
    mine = row_devices(launches, tables.launches) == device
    launches = launches[mine & (launches["end_ns"] > launches["start_ns"]).to_numpy()]
    start, end = (launches[name].to_numpy() for name in ("start_ns", "end_ns"))
    lane = interval_slots(start * 0, start, end - 1)  # one may begin as another ends
    rows: list[dict[Any, Any]] = launches.to_dict("records")
    args = [{"launch": int(row["launch"]), **launch_args(row)} for row in rows]
    bars = Bars(start, end, launches["kernel"].tolist(), args)
    for number in range(int(lane.max(initial=-1)) + 1):
        yield bars.taken(lane == number)
