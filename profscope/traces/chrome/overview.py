"""Launches, counters and findings as Chrome trace events, as text, a line each.

A process for each GPU has its launches and counters, and one has the findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from profscope.schema import Tables
from profscope.traces.above import Counter
from profscope.traces.around_tracks import AroundTracks
from profscope.traces.chrome.text import json_text, string_text
from profscope.traces.overview import FINDING, SUMMARY, Bars, launch_args
from profscope.traces.tracks import Tracks, interval_slots, nesting_lanes, row_devices

__all__ = ["around_lines", "micros", "named_event", "overview_lines"]

BLOCK_LINES: Final = 1 << 14


def around_lines(drawn: AroundTracks, origin_ns: int, after_pid: int, after_tid: int) -> Iterator[bytes]:
    """Blocks of events with a comma between any two; none before a block and none behind it.

    Processes and threads are numbered from `after_pid` and `after_tid` on.
    """
    pids: dict[str, int] = {}
    lines: list[str] = []
    for number, track in enumerate(drawn.tracks):
        pid = after_pid + 1 + pids.setdefault(track.process, len(pids))
        tid = after_tid + 1 + number
        lines.append(named_event("process_name", pid, 0, name=track.process))
        lines.append(named_event("process_sort_index", pid, 0, sort_index=-1000 + pid))  # above the SMs
        lines.append(named_event("thread_name", pid, tid, name=track.name))
        lines.append(named_event("thread_sort_index", pid, tid, sort_index=tid))
        place = f'"pid":{pid},"tid":{tid}'
        rows = track.rows
        starts = (drawn.start_ns[rows] - origin_ns).tolist()
        durations = (drawn.end_ns[rows] - drawn.start_ns[rows]).tolist()
        texts: dict[tuple[str, str, int], str] = {}
        for row, start, duration in zip(rows.tolist(), starts, durations, strict=True):
            key = drawn.name[row], drawn.kind[row], id(drawn.args[row])
            if key not in texts:
                args = json_text(drawn.args[row])
                texts[key] = f'{{"name":{string_text(key[0])},"cat":"{key[1]}","ph":"X","args":{args},'
            lines.append(f'{texts[key]}{place},"ts":{micros(start)},"dur":{micros(duration)}}}')
            if len(lines) >= BLOCK_LINES:
                yield ",\n".join(lines).encode()
                lines = []
    if lines:
        yield ",\n".join(lines).encode()


def micros(ns: int) -> str:
    """Exact: through no float."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}"


def named_event(event: str, pid: int, tid: int, **args: object) -> str:
    """One that names or orders a process or a thread."""
    return json_text({"name": event, "ph": "M", "pid": pid, "tid": tid, "args": args})


def overview_lines(
    tables: Tables,
    tracks: Tracks,
    counters: Sequence[Counter],
    findings: Bars | None,
    origin_ns: int,
    of: str,
) -> list[str]:
    """The events; `origin_ns` is what times count from, `of` what the numbers of devices are of.

    Processes and threads have the numbers that follow those of `tracks`.
    """
    pid, tid = (int(tracks.table[name].max()) for name in ("pid", "tid"))
    lines: list[str] = []
    several = len(tracks.kernels) > 1
    inside = tracks.table[tracks.table["kernel"] >= 0]  # not what other tools saw from outside
    for device in inside["device"].unique().tolist():
        pid += 1
        lines += _process(pid, f"{of} {device} launches" + " (emulated)" * tables.emulated)
        for counter in counters:
            if counter.device == device:
                whose = f": {tracks.kernels[counter.kernel]}" if several and counter.kernel >= 0 else ""
                lines += _counter(counter, counter.name + whose, pid, origin_ns)
        for lane, bars in enumerate(_launches(tables, device)):
            tid += 1
            lines += _thread(pid, tid, "launches" + f" lane {lane}" * (lane > 0))
            lines += _bars(bars, SUMMARY, pid, tid, origin_ns)
    if findings is not None:
        pid += 1
        lines += _process(pid, "Findings")
        lanes = nesting_lanes(findings.start_ns, findings.end_ns)
        for lane in range(int(lanes.max()) + 1):
            tid += 1
            lines += _thread(pid, tid, "Findings" + f" lane {lane}" * (lane > 0))
            lines += _bars(findings.taken(lanes == lane), FINDING, pid, tid, origin_ns)
    return lines


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


def _counter(counter: Counter, name: str, pid: int, origin_ns: int) -> Iterator[str]:
    start = f'{{"name":{string_text(name)},"ph":"C","pid":{pid},"ts":'
    args = f',"args":{{{string_text(counter.unit)}:'
    for time, value in zip((counter.time_ns - origin_ns).tolist(), counter.value.tolist(), strict=True):
        yield f"{start}{micros(time)}{args}{value:.12g}}}}}"


def _bars(bars: Bars, kind: str, pid: int, tid: int, origin_ns: int) -> Iterator[str]:
    columns = bars.start_ns.tolist(), bars.end_ns.tolist(), bars.name, bars.args
    for start, end, name, args in zip(*columns, strict=True):
        yield (
            f'{{"name":{string_text(name)},"cat":"{kind}","ph":"X","args":{json_text(args)},"pid":{pid},'
            f'"tid":{tid},"ts":{micros(start - origin_ns)},"dur":{micros(end - start)}}}'
        )


def _process(pid: int, name: str) -> list[str]:
    return [
        named_event("process_name", pid, 0, name=name),
        named_event("process_sort_index", pid, 0, sort_index=-2000 + pid),  # above all others
    ]


def _thread(pid: int, tid: int, name: str) -> list[str]:
    return [
        named_event("thread_name", pid, tid, name=name),
        named_event("thread_sort_index", pid, tid, sort_index=tid),
    ]
