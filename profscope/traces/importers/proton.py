"""Proton's Chrome traces, of both kinds it writes.

instrumentation   spans inside kernels: process "<kernel> Core<SM> CTA<id>", thread "warp <id> (line <n>)"
launches          one event per kernel launch on its stream's thread, in older versions a document a stream
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from profscope.schema import Tables, launches_frame, spans_frame
from profscope.traces.chrome.foreign import (
    UnreadableError,
    all_events,
    args_of,
    complete_events,
    launch_profile,
    nest,
    readable,
    text_of,
    times_of,
    untangle,
    whole_number,
)
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

PROCESS = re.compile(r"(.*) Core(\d+) CTA(\d+)", re.DOTALL)
THREAD = re.compile(r"warp (\d+) \(line \d+\)")
STREAM = re.compile(r"GPU Stream (\d+)")


def recognises(file: TraceFile) -> bool:
    return any(_inside(event) or _is_launch(event) for event in complete_events(file.documents))


def read(file: TraceFile) -> Tables:
    """The spans inside kernels, or the launches when there are none; but for what cannot be read. Raises
    TraceError if nothing can."""
    inside = [event for event in complete_events(file.documents) if _inside(event)]
    return _spans(*readable(file, inside, _row, "span")) if inside else _launches(file)


def _inside(event: dict[str, Any]) -> bool:
    return bool(PROCESS.fullmatch(str(event.get("pid"))) and THREAD.fullmatch(str(event.get("tid"))))


def _is_launch(event: dict[str, Any]) -> bool:
    return event.get("cat") == "kernel" and "call_stack" in args_of(event)


def _launches(file: TraceFile) -> Tables:
    streams = {
        str(event.get("tid")): int(match[1])
        for event in all_events(file.documents)
        if event.get("name") == "thread_name" and (match := STREAM.fullmatch(str(args_of(event).get("name"))))
    }

    def launch(event: dict[str, Any], unknown: Counter[str]) -> dict[str, Any]:
        start_ns, duration_ns = times_of(event)
        thread = event.get("tid", 0)
        stream = streams.get(str(thread), whole_number(thread))
        unknown["stream"] += stream is None
        return {
            "kernel": text_of(event["name"]),
            "stream": stream or 0,
            "start_ns": start_ns,
            "end_ns": start_ns + duration_ns,
        }

    events = [event for event in complete_events(file.documents) if event.get("cat") == "kernel"]
    kernels, odd = readable(file, events, launch, "kernel")
    note = "Imported from a Proton trace of launches: kernels only, nothing inside them, and no cycles."
    return launch_profile(kernels, _metadata(note, *odd))


def _spans(rows: list[dict[str, Any]], odd: list[str]) -> Tables:
    """Each warp's scopes. Proton names no launch, so all CTAs of one kernel count as one."""
    table = pd.DataFrame(rows)
    table["launch"] = pd.factorize(table["kernel"])[0]
    # Proton writes times as float32 microseconds: neighbours may seem to overlap by a unit of the last place.
    tolerance_ns = (
        int(np.spacing(np.float32((table["start_ns"] + table["duration"]).max() / 1000)) * 1000) + 1
    )
    table = table.sort_values(
        ["launch", "cta", "warp", "start_ns", "duration"],
        ascending=[True, True, True, True, False],
        ignore_index=True,
    )
    depth, parent, end, overlapping = ([], [], [], [])
    for first, last in _warps(table):
        start = table["start_ns"].to_numpy()[first:last]
        ends = untangle(start, start + table["duration"].to_numpy()[first:last], tolerance_ns)
        depths, parents, aside = nest(start, ends)
        depth += depths.tolist()
        parent += np.where(parents >= 0, parents + first, -1).tolist()
        end += ends.tolist()
        overlapping += aside.tolist()
    duration = np.array(end) - table["start_ns"].to_numpy()
    spans = spans_frame(
        {name: table[name] for name in ("kernel", "launch", "cta", "sm", "warp", "scope")}
        | {"kind": np.where(overlapping, "async", "scope").tolist(), "file": [""] * len(table)}
        | {"line": [0] * len(table), "iteration": [-1] * len(table), "depth": depth, "parent": parent}
        | {"start_cycle": table["start_ns"], "duration_cycles": duration}
        | {"start_ns": table["start_ns"], "duration_ns": duration}
    )
    notes = [
        "Imported from a Proton instrumentation trace: scopes only, without source lines or launches.",
        "Proton writes cycles as if the clock ran at 1 GHz: ns here are cycles, not time.",
        f"Proton rounds times to float32: they are off by up to {tolerance_ns} ns.",
        *odd,
    ]
    if any(overlapping):
        notes.append(f"{sum(overlapping)} spans overlap others of their warp and are shown as async.")
    return Tables(spans, _kernels(table), _metadata(*notes))


def _row(event: dict[str, Any], unknown: Counter[str]) -> dict[str, Any]:
    process, thread = PROCESS.fullmatch(event["pid"]), THREAD.fullmatch(event["tid"])
    assert process
    assert thread
    sm, cta, warp = (whole_number(text) for text in (process[2], process[3], thread[1]))
    if sm is None or cta is None or warp is None:
        raise UnreadableError("no such SM, CTA or warp")
    start_ns, duration_ns = times_of(event)
    return {
        "kernel": text_of(process[1]),
        "sm": sm,
        "cta": cta,
        "warp": warp,
        "scope": text_of(event["name"]),
        "start_ns": start_ns,
        "duration": duration_ns,
    }


def _warps(table: pd.DataFrame) -> Iterable[tuple[int, int]]:
    keys = table[["launch", "cta", "warp"]]
    starts = np.flatnonzero((keys != keys.shift()).any(axis=1))
    return zip(starts.tolist(), [*starts[1:].tolist(), len(table)], strict=True)


def _kernels(table: pd.DataFrame) -> pd.DataFrame:
    by_launch = table.assign(end=table["start_ns"] + table["duration"]).groupby("launch")
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
        | {"start_ns": by_launch["start_ns"].min(), "end_ns": by_launch["end"].max()}
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
