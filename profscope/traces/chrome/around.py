"""Host scopes and events as Chrome trace events, as text: names of tracks, and a line for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.traces.around_tracks import AroundTracks
from profscope.traces.jsontext import json_text, string_text

__all__ = ["around_lines", "micros", "named_event"]

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
