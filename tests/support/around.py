"""A program made up: host scopes and Kineto's events around two launches, on clocks that are known."""

from __future__ import annotations

from typing import Any, Final

from profscope.around.host_tables import with_events, with_host
from profscope.profiles import Profile
from tests.support.profiles import profile_metadata, regular_profile

UNIX_NS: Final = 1_795_000_000_000_000_000
"""By the host's clock, when the first launch begins."""

MAIN, OTHER = 100, 200
KERNEL: Final = regular_profile(launches=1, ctas=1, warps=1, iterations=1).launches["kernel"][0]


def kineto(*events: tuple[Any, ...]) -> dict[str, list[Any]]:
    """Columns as Kineto's. events: name, kind, place (a thread, or a stream), start, end, correlation."""
    on_gpu = [kind in ("kernel", "collective", "copy", "set") for _, kind, *_ in events]
    return {
        "name": [each[0] for each in events],
        "kind": [each[1] for each in events],
        "on_gpu": on_gpu,
        "device": [0 for _ in events],
        "resource": [each[2] for each in events],
        "start_unix_ns": [UNIX_NS + each[3] for each in events],
        "end_unix_ns": [UNIX_NS + each[4] for each in events],
        "correlation": [each[5] for each in events],
        "bytes": [4096 if each[1] == "copy" else -1 for each in events],
    }


def scopes(*rows: tuple[Any, ...]) -> dict[str, list[Any]]:
    """Columns as `HostScopes.columns`. rows: name, thread, start, end, parent."""
    depth: list[int] = []
    for row in rows:
        depth.append(0 if row[4] < 0 else depth[row[4]] + 1)
    return {
        "scope": [row[0] for row in rows],
        "source": ["scope" for _ in rows],
        "thread": [row[1] for row in rows],
        "start_unix_ns": [UNIX_NS + row[2] for row in rows],
        "end_unix_ns": [UNIX_NS + row[3] for row in rows],
        "depth": depth,
        "parent": [row[4] for row in rows],
        "metrics": [{"tokens": 64.0} if row[4] < 0 else {} for row in rows],
    }


def program() -> Profile:
    """A step, forward on the main thread and backward on another, with a copy, a launch of ours and a matmul.

    host     step [-9000, end + 30000) > forward [-8000, end + 300), backward [end + 500, end + 20000)
    stream 7 copy [-3000, -1000), the kernel around launch 0 [-100, end + 100), a matmul 4000 ns later
    """
    plain = regular_profile(launches=2, ctas=2, warps=1, iterations=2)
    first = int(plain.launches["start_ns"][0])
    end = int(plain.launches["end_ns"][0]) - first
    clock = {"timer_ns": first, "unix_ns": UNIX_NS, "perf_counter_ns": 0, "error_ns": 700}
    launches = plain.launches.assign(ns_uncertainty=16.0, host=[1, 0])
    metadata = profile_metadata(host_clock={"devices": {"0": [clock]}})
    profile = Profile(plain.tables.df, launches, metadata)
    rows = (
        ("step", MAIN, -9000, end + 30_000, -1),
        ("forward", MAIN, -8000, end + 300, 0),
        ("backward", MAIN, end + 500, end + 20_000, 0),
    )
    events = (
        ("aten::copy_", "op", MAIN, -7000, -4000, 1),
        ("cudaMemcpyAsync", "call", MAIN, -6000, -5000, 11),
        ("Memcpy HtoD", "copy", 7, -3000, -1000, 11),
        ("cuLaunchKernelEx", "call", MAIN, -3500, -2500, 12),
        (KERNEL, "kernel", 7, -100, end + 100, 12),
        ("MmBackward0", "op", OTHER, end + 1000, end + 5000, 2),
        ("aten::mm", "op", OTHER, end + 1500, end + 4500, 3),
        ("cudaLaunchKernel", "call", OTHER, end + 2000, end + 3100, 13),
        ("nvjet_tst", "kernel", 7, end + 4100, end + 9100, 13),
        ("ncclDevKernel", "collective", 8, end + 6000, end + 8000, 14),
    )
    return Profile.of(with_events(with_host(profile.tables, scopes(*rows)), kineto(*events)))
