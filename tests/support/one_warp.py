"""A profile of one warp, told span by span."""

from typing import Any

from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.profiles import launch_table, profile_metadata


def story(rows: list[tuple[Any, ...]]) -> Profile:
    """From (scope, kind, depth, parent, start, end) in ns, at one cycle a ns, and the row of the wait that
    ended it, where it was in flight: k, line 7 of /a/k.py."""
    scope, kind, depth, parent, start, end = zip(*(row[:6] for row in rows), strict=True)
    duration = [b - a for a, b in zip(start, end, strict=True)]
    constant = {"kernel": "k", "file": "/a/k.py", "launch": 0, "cta": 0, "sm": 5, "warp": 0, "line": 7}
    columns: dict[str, Any] = {name: [value] * len(rows) for name, value in constant.items()}
    columns |= {"scope": scope, "kind": kind, "depth": depth, "parent": parent, "iteration": [-1] * len(rows)}
    columns |= {"wait": [row[6] if len(row) > 6 else -1 for row in rows]}
    columns |= {"start_cycle": start, "start_ns": start, "duration_cycles": duration, "duration_ns": duration}
    return Profile(spans_frame(columns), launch_table([0], ["k"]), profile_metadata())
