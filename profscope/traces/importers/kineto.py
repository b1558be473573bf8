"""torch.profiler (Kineto) Chrome traces: each GPU kernel as one launch with one span and nothing inside.

What one event says may be anything: it is left out, or one of its fields is unknown, and a note counts that.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from profscope.analysis.texts import count_text
from profscope.errors import TraceError
from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame, spans_frame
from profscope.traces.trace_file import TraceFile

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
    document = file.document
    if isinstance(document, dict) and "traceEvents" in document and "deviceProperties" in document:
        return True
    return any("correlation" in _args_of(event) for event in _kernel_events(document))


def read(file: TraceFile) -> Tables:
    """The GPU kernels, but for those that cannot be read. Raises TraceError if none can."""
    document = file.document if isinstance(file.document, dict) else {}
    origin_ns = _whole_number(document.get("baseTimeNanoseconds", 0), _LATEST_NS)

    def kernel(event: dict[str, Any], unknown: Counter[str]) -> dict[str, Any]:
        return _kernel(event, origin_ns or 0, unknown)

    kernels, notes = _readable(file, [*_kernel_events(file.document)], kernel)
    notes += ["Its base time cannot be read: times begin at 0."] * (origin_ns is None)
    return launch_profile(kernels, _metadata(document, len(kernels), notes))


def _kernel_events(document: Any) -> Iterator[dict[str, Any]]:
    """The complete ("X") events of kernels with a name and a time, of a document of object or array form."""
    events = document.get("traceEvents") if isinstance(document, dict) else document
    for event in events if isinstance(events, list) else ():
        kind = (event.get("ph"), event.get("cat")) if isinstance(event, dict) else None
        if kind == ("X", "kernel") and "ts" in event and "name" in event:
            yield event


def _kernel(event: dict[str, Any], origin_ns: int, unknown: Counter[str]) -> dict[str, Any]:
    args = _args_of(event)
    start_ns, duration_ns = _times_of(event, origin_ns)
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


def _metadata(document: dict[str, Any], kernels: int, odd: list[str]) -> dict[str, Any]:
    devices = document.get("deviceProperties")
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


def _times_of(event: dict[str, Any], origin_ns: int = 0) -> tuple[int, int]:
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
    file: TraceFile,
    events: Sequence[dict[str, Any]],
    row_of: Callable[[dict[str, Any], Counter[str]], dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of events with `start_ns`, and one note on what cannot be read, if there is such.

    row_of: raises UnreadableError, and counts the fields that are unknown. Raises TraceError if none can
    be read.
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
        raise TraceError(f"{file} is a damaged trace of another tool: no kernel can be read: {reasons}")
    fields = ", ".join(f"the {name} of {count:,}" for name, count in unknown.items() if count)
    told = [f"{count_text(len(events) - len(near), 'kernel')} left out: {reasons}"] if reasons else []
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
