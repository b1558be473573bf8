"""torch.profiler (Kineto) Chrome traces: each GPU kernel as one launch with one span and nothing inside.

What one event says may be anything: it is left out, or one of its fields is unknown, and a note counts that.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pandas as pd

from profscope.analysis.texts import count_text
from profscope.errors import TraceError
from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame, spans_frame
from profscope.traces.trace_file import TraceFile

if TYPE_CHECKING:  # profscope's own traces are read without msgspec
    from profscope.traces.chrome.reading import Kernel, Kernels

__all__ = ["launch_profile", "read", "recognises"]

_THREADS_PER_WARP: Final = 32
_MOST_STREAM: Final = (1 << 63) - 1
_LONGEST_NS: Final = 7 * 86_400 * 10**9
"""No span lasts longer than a week, and no trace does."""
_LATEST_NS: Final = 1 << 62
"""Some 146 years: twice that is no number that tables hold."""
_LAST_NUMBER: Final = re.compile(r"(\d+)\D*$")


class UnreadableError(ValueError):
    """An event that cannot be read; the text says what is wrong with it, in few words."""


def recognises(file: TraceFile) -> bool:
    """Whether it is one object that describes devices, or one with kernels, or the bare array of events."""
    from profscope.traces.chrome.reading import Kernel

    trace = file.chrome
    if trace is None:
        return False
    if "traceEvents" in trace.fields and "deviceProperties" in trace.fields:
        return True
    events = (event for piece in trace.kernels for event in piece)
    return any(isinstance(event, Kernel) or "correlation" in _args_of(event) for event in events)


def read(file: TraceFile) -> Tables:
    """The GPU kernels, but for those that cannot be read. Raises TraceError if none can."""
    trace = file.chrome
    assert trace is not None
    origin_ns = _whole_number(trace.fields.get("baseTimeNanoseconds", 0), _LATEST_NS)
    kernels, notes = _readable(file, trace.kernels, origin_ns or 0)
    notes += ["Its base time cannot be read: times begin at 0."] * (origin_ns is None)
    return launch_profile(kernels, _metadata(trace.fields, len(kernels["kernel"]), notes))


_COLUMNS: Final = (
    "kernel",
    "start_ns",
    "end_ns",
    "device",
    "stream",
    "grid_x",
    "grid_y",
    "grid_z",
    "num_warps",
)


def _regular_columns(events: "Sequence[Kernel]") -> dict[str, Any]:
    """Columns of kernels as torch.profiler writes them, which nearly all are; times without the base time."""
    args = [event.args for event in events]
    start, duration = (
        np.rint(np.array([getattr(event, name) for event in events], np.float64) * 1000).astype(np.int64)
        for name in ("ts", "dur")
    )
    grid, block = (
        np.array([getattr(each, name) for each in args], np.int64).reshape(-1, 3)
        for name in ("grid", "block")
    )
    return {
        "kernel": [event.name for event in events],
        "start_ns": start,
        "end_ns": start + duration,
        "device": [each.device for each in args],
        "stream": [each.stream for each in args],
        **{f"grid_{axis}": grid[:, place] for place, axis in enumerate("xyz")},
        "num_warps": -(-block.prod(axis=1) // _THREADS_PER_WARP),
    }


def _kernel(event: dict[str, Any], unknown: Counter[str]) -> dict[str, Any]:
    args = _args_of(event)
    start_ns, duration_ns = _times_of(event)
    grid, block = (_sides(args, name, unknown) for name in ("grid", "block"))
    numbers = {}
    for name, most in (("device", (1 << 31) - 1), ("stream", _MOST_STREAM)):
        number = _whole_number(args.get(name, 0), most)
        unknown[name] += number is None
        numbers[name] = number or 0
    threads = block[0] * block[1] * block[2]
    return numbers | {
        "kernel": _text_of(event["name"]),
        "grid_x": grid[0],
        "grid_y": grid[1],
        "grid_z": grid[2],
        "num_warps": -(-threads // _THREADS_PER_WARP),
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
    }


def _sides(args: dict[str, Any], name: str, unknown: Counter[str]) -> list[int]:
    """Three, those behind the ones that are told 1; zeros for what is no size."""
    given = args.get(name, [0, 0, 0])
    sides = [_whole_number(side, 1 << 31) for side in given[:3]] if isinstance(given, list) else []
    known = [side for side in sides if side is not None]
    if not known or len(known) < len(sides):
        unknown[name] += 1
        return [0, 0, 0]
    return [*known, 1, 1][:3]


def _metadata(fields: dict[str, Any], kernels: int, odd: list[str]) -> dict[str, Any]:
    devices = fields.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else {}
    device = first if isinstance(first, dict) else {}
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    notes = ["Imported from a torch.profiler trace: kernels only, nothing inside them, and no cycles.", *odd]
    if kernels == 0:
        notes.append("The trace holds no GPU kernels: was ProfilerActivity.CUDA recorded?")
    return {
        "tool": "torch.profiler",
        "backend": "gpu",
        "device": {
            "name": _text_of(device.get("name") or ""),
            "arch": f"sm_{major}{minor}" if major is not None else "",
            "sm_count": _whole_number(device.get("numSms")) or 0,
        },
        "notes": notes,
    }


def _args_of(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _text_of(value: Any) -> str:
    """With a question mark for each lone surrogate, which no file can hold."""
    return str(value).encode(errors="replace").decode()


def _times_of(event: dict[str, Any]) -> tuple[int, int]:
    """Begin and duration in ns. Raises UnreadableError for what is no time."""
    start_ns, duration_ns = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
    if start_ns is None or duration_ns is None or abs(start_ns) > _LATEST_NS:
        raise UnreadableError("no time")
    if duration_ns < 0:
        raise UnreadableError("a negative duration")
    if duration_ns > _LONGEST_NS:
        raise UnreadableError("a duration of more than a week")
    return start_ns, duration_ns


def _nanoseconds(microseconds: Any) -> int | None:
    """A Chrome time in whole ns, the nearest: its decimals went through a float where it was written. None
    for what is none."""
    try:
        value = float(microseconds) * 1000
    except (TypeError, ValueError, OverflowError):
        return None
    return round(value) if math.isfinite(value) else None


def _whole_number(value: Any, most: int = np.iinfo(np.int32).max) -> int | None:
    """A number from 0 to `most`, also the one that a text ends with, such as "stream 7"; None for what is
    none."""
    if isinstance(value, str) and (match := _LAST_NUMBER.search(value)):
        value = match[1]
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= most else None


def _readable(
    file: TraceFile, pieces: "Iterable[Kernels]", origin_ns: int
) -> tuple[dict[str, Any], list[str]]:
    """The columns of kernels, and one note on what cannot be read, if there is such.

    Raises TraceError if there are kernels and none can be read.
    """
    from profscope.traces.chrome.reading import Kernel

    columns: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for piece in pieces:
        if piece and isinstance(piece[0], Kernel):
            columns.append(_regular_columns(piece))
        else:
            columns.append(_columns(cast(list[dict[str, Any]], piece), left_out, unknown))
    table: dict[str, Any] = {
        name: np.concatenate([np.zeros(0, np.int64), *(np.array(each[name], np.int64) for each in columns)])
        for name in _COLUMNS[1:]
    }
    table["kernel"] = np.array([name for each in columns for name in each["kernel"]], object)
    count = len(table["kernel"]) + left_out.total()
    if int(table["end_ns"].max(initial=0)) + origin_ns > np.iinfo(np.int64).max:
        raise OverflowError("a time of more than 292 years")
    for name in ("start_ns", "end_ns"):
        table[name] += origin_ns
    start = table["start_ns"]
    near = np.abs(start - (np.median(start) if len(start) else 0.0)) <= _LONGEST_NS
    left_out["a time more than a week from the others'"] += int(np.count_nonzero(~near))
    reasons = ", ".join(f"{why} ({number:,})" for why, number in left_out.items() if number)
    if count and not near.any():
        raise TraceError(f"{file} is a damaged trace of another tool: no kernel can be read: {reasons}")
    fields = ", ".join(f"the {name} of {number:,}" for name, number in unknown.items() if number)
    told = [f"{count_text(left_out.total(), 'kernel')} left out: {reasons}"] if reasons else []
    told += [f"unknown: {fields}"] if fields else []
    notes = [f"What cannot be read: {'; '.join(told)}."] if told else []
    return {name: values[near] for name, values in table.items()}, notes


def _columns(
    events: Iterable[dict[str, Any]], left_out: Counter[str], unknown: Counter[str]
) -> dict[str, list[Any]]:
    """Columns of events of any form; counts those that cannot be read, and fields that are unknown."""
    rows: list[dict[str, Any]] = []
    for event in events:
        try:
            rows.append(_kernel(event, unknown))
        except UnreadableError as error:
            left_out[str(error)] += 1
    return {name: [row[name] for row in rows] for name in _COLUMNS}


def launch_profile(kernels: Mapping[str, Sequence[Any]], metadata: dict[str, Any]) -> Tables:
    """A profile of kernels known only from outside: each a launch with one span, in order of time.

    kernels: `kernel`, `start_ns`, `end_ns` and whatever columns of launches are known. In the spans CTA, SM
    and warp are -1 and cycles 0.
    """
    count = len(kernels["kernel"])
    order = np.lexsort([np.array(kernels[name], np.int64) for name in ("end_ns", "start_ns")])
    known = {
        name: np.array(values, object if name == "kernel" else None)[order]
        for name, values in kernels.items()
    }
    unknown = LAUNCH_DEFAULTS | {
        "clock_ghz": float("nan"),
        "ns_uncertainty": float("nan"),
        "num_ctas": 1,
        "backend": "gpu",
    }
    name = pd.Series(known["kernel"], dtype="str").astype("category").array
    launches = launches_frame(
        {column: np.full(count, unknown.get(column, 0)) for column in LAUNCH_DTYPES}
        | known
        | {"kernel": name.astype("str"), "launch": np.arange(count)}
    )

    def all_of(value: str) -> pd.Categorical:
        return pd.Categorical.from_codes(np.zeros(count, np.int8), categories=pd.Index([value], dtype="str"))

    spans = spans_frame(
        {"kernel": name, "scope": name, "kind": all_of("kernel"), "file": all_of("")}
        | {"launch": launches["launch"], "start_ns": launches["start_ns"]}
        | {"duration_ns": launches["end_ns"] - launches["start_ns"]}
        | dict.fromkeys(("cta", "sm", "warp", "iteration", "parent"), np.full(count, -1))
        | dict.fromkeys(("line", "depth", "start_cycle", "duration_cycles"), np.zeros(count, np.int64))
    )
    return Tables(spans, launches, metadata)
