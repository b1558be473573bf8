"""Profiles as they would be of other sessions: with other sources, or other times."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from profscope.profiles import Profile
from tests.support.profiles import regular_profile

FILE = "/src/kernels/matmul.py"
# What regular_profile's lines could read.
_LINES = {
    10: "def matmul_kernel(a_ptr, b_ptr, c_ptr, K):",
    11: "    pid = tl.program_id(0)",
    12: "    rows = tl.arange(0, 64)",
    22: "    for k in range(0, K, 64):",
    23: "        a = tl.load(a_ptr + rows)",
    24: "        b = tl.load(b_ptr + rows)",
    25: "        tl.debug_barrier()",
    26: "        tl.debug_barrier()",
    27: "        acc = tl.dot(a, b, acc)",
    40: "    tl.store(c_ptr + rows, acc)",
}
SOURCE = "".join(f"{_LINES.get(line, '')}\n" for line in range(10, 41))


def run_of_matmul(seed: int, launches: int = 8, ctas: int = 16, **more: Any) -> Profile:
    """A session of a matmul, the same but for its noise."""
    profile = regular_profile(launches=launches, ctas=ctas, warps=2, iterations=4, seed=seed)
    return with_source(replace(profile, metadata={**profile.metadata, **more}), SOURCE)


def with_source(profile: Profile, text: str, line: int = 10, file: str = FILE) -> Profile:
    """The profile with this text of its kernel."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    source = {"name": "matmul_kernel", "file": file, "line": line, "text": text, "sha256": ""}
    variant = {"variant": 0, "key": digest, "source_hash": digest}
    told = {"sources": [source], "variants": {"matmul_kernel": [variant]}}
    return replace(profile, metadata=profile.metadata | told)


def slowed(profile: Profile, scope: str, factor: float) -> Profile:
    """The profile with the spans of a scope longer, and the launches by as much as the scope has of them."""
    df = profile.df
    slow = (df["scope"] == scope).to_numpy()
    columns: dict[str, Any] = {}
    for name in ("duration_ns", "duration_cycles"):
        duration = df[name].to_numpy()
        more = np.where(slow, np.rint(duration * (factor - 1)), 0).astype(np.int64)
        parent = df["parent"].to_numpy()
        added = more.copy()
        for depth in range(int(df["depth"].max()), 0, -1):
            inside = (df["depth"] == depth).to_numpy()
            np.add.at(added, parent[inside], added[inside])
        columns[name] = duration + added
    roots = (df["depth"] == 0).to_numpy()
    grown = columns["duration_ns"][roots].sum() / df["duration_ns"].to_numpy()[roots].sum()
    launches = profile.launches
    took = (launches["end_ns"] - launches["start_ns"]) * grown
    return replace(
        profile,
        df=df.assign(**columns),
        launches=launches.assign(end_ns=launches["start_ns"] + took.astype("int64")),
    )
