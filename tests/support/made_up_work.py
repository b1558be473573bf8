"""A launch of an H200's whose ops move so many bytes and compute so much."""

from __future__ import annotations

from typing import Any

from profscope.profiles import Profile
from tests.support.made_up_spans import Row, made_up

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
