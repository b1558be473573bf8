"""A profile written down span by span: what one warp did, and as many warps and CTAs that did the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.profiles import launch_table

Row = tuple[str, str, int, int, int, int, int]
"""scope, kind, line, iteration, the row around it (-1: none), begin and duration in cycles."""


def made_up(
    rows: Sequence[Row], *, ctas: int = 4, warps: int = 2, backend: str = "gpu", **told: Any
) -> Profile:
    """A launch of kernel k, one CTA on each SM, whose warps all did the same. told: more metadata."""
    names = ("scope", "kind", "line", "iteration", "parent", "start_cycle", "duration_cycles")
    table: dict[str, list[Any]] = {name: [] for name in (*names, "cta", "warp", "depth")}
    depths: list[int] = []
    for row in rows:
        depths.append(depths[row[4]] + 1 if row[4] >= 0 else 0)
    for cta in range(ctas):
        for warp in range(warps):
            base = len(table["cta"])
            for row, depth in zip(rows, depths, strict=True):
                for name, value in zip(names, row, strict=True):
                    table[name].append(value + base if name == "parent" and value >= 0 else value)
                table["cta"].append(cta)
                table["warp"].append(warp)
                table["depth"].append(depth)
    count = len(table["cta"])
    columns: dict[str, Any] = table | {"sm": table["cta"], "launch": [0] * count}
    columns |= {"kernel": ["k"] * count, "file": ["k.py"] * count}
    columns |= {"start_ns": table["start_cycle"], "duration_ns": table["duration_cycles"]}
    end = max(row[5] + row[6] for row in rows)
    launches = launch_table([0], ["k"], grid_x=[ctas], ctas=[ctas], end_ns=[end], num_warps=[warps])
    return Profile(spans_frame(columns), launches, {"backend": backend} | told)


H200 = {"name": "NVIDIA H200", "arch": "sm_90", "sm_count": 4}
ROWS: list[Row] = [
    ("k", "kernel", 1, -1, -1, 0, 10_000),
    ("loop L5", "loop", 5, -1, 0, 0, 8000),
    ("load x", "op", 6, 0, 1, 0, 6000),
    ("load x", "op", 6, 1, 1, 6000, 2000),
    ("store", "op", 9, -1, 0, 8000, 2000),
]


def worked(moved: dict[tuple[str, int], tuple[float, float]], rows: list[Row] = ROWS, **told: Any) -> Profile:
    """A launch of 10,000 ns whose ops move so many bytes, and compute so much."""
    scopes = [
        {"scope": scope, "kind": "op", "file": "k.py", "line": line, "call_path": "", "measures": "issue"}
        | {"bytes": count, "flops": flops}
        for (scope, line), (count, flops) in moved.items()
    ]
    entry = {"variant": 0, "launches": 1, "ns": 10_000, "scopes": scopes}
    return made_up(rows, **({"kernels": {"k": {"work": [entry]}}, "device": H200} | told))
