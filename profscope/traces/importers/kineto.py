"""torch.profiler (Kineto) Chrome traces: each GPU kernel as one launch with one span and nothing inside."""

from typing import Any

from profscope.schema import Tables
from profscope.traces.chrome.foreign import complete_events, launch_profile, nanoseconds
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

THREADS_PER_WARP = 32


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
        event.get("cat") == "kernel" and "correlation" in event.get("args", {})
        for event in complete_events(documents)
    )


def read(file: TraceFile) -> Tables:
    """The GPU kernels. Raises TypeError or ValueError for a damaged event."""
    documents = file.documents
    document = documents[0] if isinstance(documents[0], dict) else {}
    origin_ns = int(document.get("baseTimeNanoseconds", 0))
    kernels = [
        _kernel(event, origin_ns) for event in complete_events(documents) if event.get("cat") == "kernel"
    ]
    return launch_profile(kernels, _metadata(document, len(kernels)))


def _kernel(event: dict[str, Any], origin_ns: int) -> dict[str, Any]:
    args = event.get("args", {})
    grid, block = args.get("grid", (0, 0, 0)), args.get("block", (0, 0, 0))
    start_ns = origin_ns + nanoseconds(event["ts"])
    threads = int(block[0]) * int(block[1]) * int(block[2])
    return {
        "kernel": str(event["name"]),
        "grid_x": int(grid[0]),
        "grid_y": int(grid[1]),
        "grid_z": int(grid[2]),
        "num_warps": -(-threads // THREADS_PER_WARP),
        "device": int(args.get("device", 0)),
        "stream": int(args.get("stream", 0)),
        "start_ns": start_ns,
        "end_ns": start_ns + nanoseconds(event.get("dur", 0)),
    }


def _metadata(document: dict[str, Any], kernels: int) -> dict[str, Any]:
    devices = document.get("deviceProperties") or [{}]
    major, minor = devices[0].get("computeMajor"), devices[0].get("computeMinor")
    notes = ["Imported from a torch.profiler trace: kernels only, nothing inside them, and no cycles."]
    if kernels == 0:
        notes.append("The trace holds no GPU kernels: was ProfilerActivity.CUDA recorded?")
    return {
        "tool": "torch.profiler",
        "backend": "gpu",
        "device": {
            "name": devices[0].get("name", ""),
            "arch": f"sm_{major}{minor}" if major is not None else "",
            "sm_count": devices[0].get("numSms", 0),
        },
        "notes": notes,
    }
