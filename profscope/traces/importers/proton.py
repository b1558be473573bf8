"""Proton's Chrome traces, of both kinds it writes.

instrumentation   spans inside kernels: process "<kernel> Core<SM> CTA<id>", thread "warp <id> (line <n>)"
launches          one event per kernel launch on its stream's thread, in older versions a document a stream
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from profscope.schema import Tables, launches_frame, spans_frame
from profscope.traces.chrome.foreign import (
    complete_events,
    launch_profile,
    nanoseconds,
    nest,
    untangle,
)
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

PROCESS = re.compile(r"(.*) Core(\d+) CTA(\d+)", re.DOTALL)
THREAD = re.compile(r"warp (\d+) \(line \d+\)")
STREAM = re.compile(r"GPU Stream (\d+)")


def recognises(file: TraceFile) -> bool:
    return any(_inside(event) or _is_launch(event) for event in complete_events(file.documents))


def read(file: TraceFile) -> Tables:
    """The spans inside kernels, or the launches when there are none.

    Raises TypeError or ValueError for a damaged event.
    """
    inside = [event for event in complete_events(file.documents) if _inside(event)]
    return _spans(inside) if inside else _launches(file.documents)


def _inside(event: dict[str, Any]) -> bool:
    return bool(PROCESS.fullmatch(str(event.get("pid"))) and THREAD.fullmatch(str(event.get("tid"))))


def _is_launch(event: dict[str, Any]) -> bool:
    return event.get("cat") == "kernel" and "call_stack" in event.get("args", {})


def _launches(documents: list[Any]) -> Tables:
    stream = {
        event.get("tid"): int(match[1])
        for document in documents
        for event in document.get("traceEvents", ())
        if event.get("name") == "thread_name" and (match := STREAM.fullmatch(str(event["args"].get("name"))))
    }
    events = [event for event in complete_events(documents) if _is_launch(event)]
    kernels = [
        {
            "kernel": str(event["name"]),
            "stream": stream.get(event.get("tid"), int(event.get("tid", 0))),
            "start_ns": nanoseconds(event["ts"]),
            "end_ns": nanoseconds(event["ts"]) + nanoseconds(event.get("dur", 0)),
        }
        for event in events
    ]
    note = "Imported from a Proton trace of launches: kernels only, nothing inside them, and no cycles."
    return launch_profile(kernels, _metadata(note))


def _spans(events: list[dict[str, Any]]) -> Tables:
    """Each warp's scopes. Proton names no launch, so all CTAs of one kernel count as one."""
    table = pd.DataFrame([_row(event) for event in events])
    table["launch"] = pd.factorize(table["kernel"])[0]
    # Proton writes times as float32 microseconds: neighbours may seem to overlap by a unit of the last place.
    tolerance_ns = int(np.spacing(np.float32((table["start"] + table["duration"]).max() / 1000)) * 1000) + 1
    table = table.sort_values(
        ["launch", "cta", "warp", "start", "duration"],
        ascending=[True, True, True, True, False],
        ignore_index=True,
    )
    depth, parent, end, overlapping = ([], [], [], [])
    for first, last in _warps(table):
        start = table["start"].to_numpy()[first:last]
        ends = untangle(start, start + table["duration"].to_numpy()[first:last], tolerance_ns)
        depths, parents, aside = nest(start, ends)
        depth += depths.tolist()
        parent += np.where(parents >= 0, parents + first, -1).tolist()
        end += ends.tolist()
        overlapping += aside.tolist()
    duration = np.array(end) - table["start"].to_numpy()
    spans = spans_frame(
        {name: table[name] for name in ("kernel", "launch", "cta", "sm", "warp", "scope")}
        | {"kind": np.where(overlapping, "async", "scope").tolist(), "file": [""] * len(table)}
        | {"line": [0] * len(table), "iteration": [-1] * len(table), "depth": depth, "parent": parent}
        | {"start_cycle": table["start"], "duration_cycles": duration}
        | {"start_ns": table["start"], "duration_ns": duration}
    )
    notes = [
        "Imported from a Proton instrumentation trace: scopes only, without source lines or launches.",
        "Proton writes cycles as if the clock ran at 1 GHz: ns here are cycles, not time.",
        f"Proton rounds times to float32: they are off by up to {tolerance_ns} ns.",
    ]
    if any(overlapping):
        notes.append(f"{sum(overlapping)} spans overlap others of their warp and are shown as async.")
    return Tables(spans, _kernels(table), _metadata(*notes))


def _row(event: dict[str, Any]) -> dict[str, Any]:
    process, thread = PROCESS.fullmatch(event["pid"]), THREAD.fullmatch(event["tid"])
    assert process
    assert thread
    return {
        "kernel": process[1],
        "sm": int(process[2]),
        "cta": int(process[3]),
        "warp": int(thread[1]),
        "scope": str(event["name"]),
        "start": nanoseconds(event["ts"]),
        "duration": nanoseconds(event.get("dur", 0)),
    }


def _warps(table: pd.DataFrame) -> Iterable[tuple[int, int]]:
    keys = table[["launch", "cta", "warp"]]
    starts = np.flatnonzero((keys != keys.shift()).any(axis=1))
    return zip(starts.tolist(), [*starts[1:].tolist(), len(table)], strict=True)


def _kernels(table: pd.DataFrame) -> pd.DataFrame:
    by_launch = table.assign(end=table["start"] + table["duration"]).groupby("launch")
    kernels = by_launch["kernel"].first()
    count = len(kernels)
    unknown = ("grid_x", "grid_y", "grid_z", "device", "stream", "records", "dropped", "profile_bytes")
    return launches_frame(
        {
            "launch": range(count),
            "kernel": kernels.tolist(),
            "backend": ["gpu"] * count,
            "num_ctas": [1] * count,
        }
        | {"ctas": by_launch["cta"].nunique(), "num_warps": by_launch["warp"].nunique()}
        | {"start_ns": by_launch["start"].min(), "end_ns": by_launch["end"].max()}
        | dict.fromkeys(("clock_ghz", "ns_uncertainty"), [float("nan")] * count)
        | dict.fromkeys(unknown, [0] * count)
    )


def _metadata(*notes: str) -> dict[str, Any]:
    return {
        "tool": "proton",
        "backend": "gpu",
        "device": {"name": "", "arch": "", "sm_count": 0},
        "notes": [*notes],
    }
