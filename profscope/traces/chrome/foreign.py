"""What importers of other tools' Chrome traces share.

What one event says may be anything: it is left out, or one of its fields is unknown, and a note counts that.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.texts import count_text
from profscope.errors import TraceError
from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame, spans_frame
from profscope.traces.trace_file import TraceFile
from profscope.traces.tracks import nesting_lanes

__all__ = [
    "UnreadableError",
    "all_events",
    "args_of",
    "complete_events",
    "launch_profile",
    "nest",
    "readable",
    "text_of",
    "times_of",
    "untangle",
    "whole_number",
]

Ints = NDArray[np.int64]

_LONGEST_NS: Final = 7 * 86_400 * 10**9
"""No span lasts longer than a week, and no trace does."""
_LATEST_NS: Final = 1 << 62
"""Some 146 years: twice that is no number that tables hold."""
_LAST_NUMBER: Final = re.compile(r"(\d+)\D*$")


class UnreadableError(ValueError):
    """An event that cannot be read; the text says what is wrong with it, in few words."""


def all_events(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The events of documents of object or array form."""
    for document in documents:
        events = document.get("traceEvents") if isinstance(document, dict) else document
        yield from (
            event for event in (events if isinstance(events, list) else ()) if isinstance(event, dict)
        )


def complete_events(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The complete ("X") events with a name and a time."""
    for event in all_events(documents):
        if event.get("ph") == "X" and "ts" in event and "name" in event:
            yield event


def args_of(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def text_of(value: Any) -> str:
    """With a question mark for each lone surrogate, which no file can hold."""
    return str(value).encode(errors="replace").decode()


def times_of(event: dict[str, Any], origin_ns: int = 0) -> tuple[int, int]:
    """Begin and duration in ns. Raises UnreadableError for what is no time."""
    start_ns, duration_ns = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
    if start_ns is None or duration_ns is None or abs(start_ns) > _LATEST_NS:
        raise UnreadableError("no time")
    if duration_ns < 0:
        raise UnreadableError("a negative duration")
    if duration_ns > _LONGEST_NS:
        raise UnreadableError("a duration of more than a week")
    return origin_ns + start_ns, duration_ns


def _nanoseconds(microseconds: Any) -> int | None:
    """A Chrome time in whole ns, the nearest: its decimals went through a float where it was written. None
    for what is none."""
    try:
        value = float(microseconds) * 1000
    except (TypeError, ValueError, OverflowError):
        return None
    return round(value) if math.isfinite(value) else None


def whole_number(value: Any, most: int = np.iinfo(np.int32).max) -> int | None:
    """A number from 0 to `most`, also the one that a text ends with, such as "stream 7"; None for what is
    none."""
    if isinstance(value, str) and (match := _LAST_NUMBER.search(value)):
        value = match[1]
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= most else None


def readable(
    file: TraceFile,
    events: Sequence[dict[str, Any]],
    row_of: Callable[[dict[str, Any], Counter[str]], dict[str, Any]],
    what: str,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of events with `start_ns`, and one note on what cannot be read, if there is such.

    row_of: raises UnreadableError, and counts the fields that are unknown. what: an event is. Raises
    TraceError if none can be read.
    """
    rows: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for event in events:
        try:
            rows.append(row_of(event, unknown))
        except UnreadableError as error:
            left_out[str(error)] += 1
    middle = float(np.median([row["start_ns"] for row in rows])) if rows else 0.0
    near = [row for row in rows if abs(row["start_ns"] - middle) <= _LONGEST_NS]
    left_out["a time more than a week from the others'"] += len(rows) - len(near)
    reasons = ", ".join(f"{why} ({count:,})" for why, count in left_out.items() if count)
    if events and not near:
        raise TraceError(f"{file} is a damaged trace of another tool: no {what} can be read: {reasons}")
    fields = ", ".join(f"the {name} of {count:,}" for name, count in unknown.items() if count)
    told = [f"{count_text(len(events) - len(near), what)} left out: {reasons}"] if reasons else []
    told += [f"unknown: {fields}"] if fields else []
    return near, [f"What cannot be read: {'; '.join(told)}."] if told else []


def launch_profile(kernels: list[dict[str, Any]], metadata: dict[str, Any]) -> Tables:
    """A profile of kernels known only from outside: each a launch with one span, in order of time.

    A kernel is a dict of `kernel`, `start_ns`, `end_ns` and whatever columns of a launch are known. In the
    spans CTA, SM and warp are -1 and cycles 0.
    """
    kernels = sorted(kernels, key=lambda kernel: (kernel["start_ns"], kernel["end_ns"]))
    unknown = LAUNCH_DEFAULTS | {
        "clock_ghz": float("nan"),
        "ns_uncertainty": float("nan"),
        "num_ctas": 1,
        "backend": "gpu",
    }
    launches = launches_frame(
        {name: [kernel.get(name, unknown.get(name, 0)) for kernel in kernels] for name in LAUNCH_DTYPES}
        | {"launch": range(len(kernels))}
    )
    name = launches["kernel"]
    spans = spans_frame(
        {"kernel": name, "scope": name, "kind": ["kernel"] * len(name), "file": [""] * len(name)}
        | {"launch": launches["launch"], "start_ns": launches["start_ns"]}
        | {"duration_ns": launches["end_ns"] - launches["start_ns"]}
        | dict.fromkeys(("cta", "sm", "warp", "iteration", "parent"), [-1] * len(name))
        | dict.fromkeys(("line", "depth", "start_cycle", "duration_cycles"), [0] * len(name))
    )
    return Tables(spans, launches, metadata)


def nest(start: Ints, end: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Nest the spans of one warp, sorted by start and then longest first, all of shape (spans,).

    Returns each span's depth, the position of its parent (-1 at the root), and whether it overlaps others
    without nesting, which leaves it beside them, with the parent that holds its start.
    """
    overlapping = nesting_lanes(start, end) > 0
    depth, parent = np.zeros(len(start), np.int64), np.full(len(start), -1, np.int64)
    stack: list[int] = []
    for at, begin in enumerate(start.tolist()):
        while stack and end[stack[-1]] <= begin:
            stack.pop()
        if stack:
            parent[at], depth[at] = stack[-1], len(stack)
        if not overlapping[at]:
            stack.append(at)
    return depth, parent, overlapping


def untangle(start: Ints, end: Ints, tolerance_ns: int) -> Ints:
    """Ends moved earlier by at most `tolerance_ns`, where that makes overlapping spans nest or follow.

    The spans are one warp's, sorted by start and then longest first.
    """
    ends = end.tolist()
    stack: list[int] = []
    for at, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] - begin <= tolerance_ns and ends[at] > ends[stack[-1]]:
            ends[stack[-1]] = min(ends[stack[-1]], begin)
            stack.pop()
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack and 0 < ends[at] - ends[stack[-1]] <= tolerance_ns:
            ends[at] = ends[stack[-1]]
        stack.append(at)
    return np.array(ends, np.int64)
