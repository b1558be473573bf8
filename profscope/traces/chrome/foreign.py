"""What importers of other tools' Chrome traces share."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame, spans_frame
from profscope.traces.tracks import nesting_lanes

__all__ = ["complete_events", "launch_profile", "nanoseconds", "nest", "untangle"]

Ints = NDArray[np.int64]


def complete_events(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The complete ("X") events with a name and a time, of object or array form."""
    for document in documents:
        events = document.get("traceEvents") if isinstance(document, dict) else document
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict) and event.get("ph") == "X" and "ts" in event and "name" in event:
                yield event


def nanoseconds(microseconds: float | str) -> int:
    """A Chrome time in whole ns, the nearest: its decimals went through a float where it was written."""
    return round(float(microseconds) * 1000)


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
