"""torch.profiler (Kineto) Chrome traces: each GPU kernel as one launch with one span and nothing inside."""

from collections import Counter
from typing import Any

from profscope.schema import Tables
from profscope.traces.chrome.foreign import (
    args_of,
    complete_events,
    launch_profile,
    readable,
    text_of,
    times_of,
    whole_number,
)
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

THREADS_PER_WARP = 32
_LATEST_NS = 1 << 62
_MOST_STREAM = (1 << 63) - 1


def recognises(file: TraceFile) -> bool:
    """Whether it is one object that describes devices, or one with kernels, or the bare array of events."""
    documents = file.documents
    if len(documents) != 1:
        return False
    if (
        isinstance(documents[0], dict)
        and "traceEvents" in documents[0]
        and "deviceProperties" in documents[0]
    ):
        return True
    return any(
        event.get("cat") == "kernel" and "correlation" in args_of(event)
        for event in complete_events(documents)
    )


def read(file: TraceFile) -> Tables:
    """The GPU kernels, but for those that cannot be read. Raises TraceError if none can."""
    documents = file.documents
    document = documents[0] if isinstance(documents[0], dict) else {}
    origin_ns = whole_number(document.get("baseTimeNanoseconds", 0), _LATEST_NS)
    events = [event for event in complete_events(documents) if event.get("cat") == "kernel"]

    def kernel(event: dict[str, Any], unknown: Counter[str]) -> dict[str, Any]:
        return _kernel(event, origin_ns or 0, unknown)

    kernels, notes = readable(file, events, kernel, "kernel")
    notes += ["Its base time cannot be read: times begin at 0."] * (origin_ns is None)
    return launch_profile(kernels, _metadata(document, len(kernels), notes))


def _kernel(event: dict[str, Any], origin_ns: int, unknown: Counter[str]) -> dict[str, Any]:
    args = args_of(event)
    start_ns, duration_ns = times_of(event, origin_ns)
    grid, block = (_sides(args, name, unknown) for name in ("grid", "block"))
    numbers = {}
    for name, most in (("device", (1 << 31) - 1), ("stream", _MOST_STREAM)):
        number = whole_number(args.get(name, 0), most)
        unknown[name] += number is None
        numbers[name] = number or 0
    threads = block[0] * block[1] * block[2]
    return numbers | {
        "kernel": text_of(event["name"]),
        "grid_x": grid[0],
        "grid_y": grid[1],
        "grid_z": grid[2],
        "num_warps": -(-threads // THREADS_PER_WARP),
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
    }


def _sides(args: dict[str, Any], name: str, unknown: Counter[str]) -> list[int]:
    """Three, those behind the ones that are told 1; zeros for what is no size."""
    given = args.get(name, [0, 0, 0])
    sides = [whole_number(side, 1 << 31) for side in given[:3]] if isinstance(given, list) else []
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
            "name": text_of(device.get("name") or ""),
            "arch": f"sm_{major}{minor}" if major is not None else "",
            "sm_count": whole_number(device.get("numSms")) or 0,
        },
        "notes": notes,
    }
