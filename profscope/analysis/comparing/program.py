"""What of the time of two programs a comparison judges, and what it leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from profscope.analysis.comparing.figures import Side
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import COMPARED, LaunchGroup, Pair

__all__ = ["ComparedKernel", "program"]


class ComparedKernel(NamedTuple):
    """A pair, and why its launches cannot be compared: "" if they can."""

    pair: Pair
    why_not: str = ""


def program(a: Side, b: Side, groups: Sequence[ComparedKernel], table: pd.DataFrame) -> dict[str, Any]:
    """Entry "program" of a comparison's attrs.

    launches_a, launches_b: how many were recorded. total_a, total_b: their time. changed_a, changed_b: the
    part of it, 0 to 1, whose time has changed or that was not judged; not_judged_a, not_judged_b: of the
    latter alone.
    not_judged: by group of these its `name`, `why`, and the parts `a` and `b` of the program's time.
    """
    rows = table[(table["kind"] == LAUNCH) & (table["status"] == "changed")]
    changed = set(rows[list(COMPARED)].itertuples(index=False, name=None))
    took = [
        (_took(a, each.pair.kernel, each.pair.a), _took(b, each.pair.kernel, each.pair.b)) for each in groups
    ]
    result: dict[str, Any] = {
        "launches_a": sum(_launches(a, each.pair.kernel, each.pair.a) for each in groups),
        "launches_b": sum(_launches(b, each.pair.kernel, each.pair.b) for each in groups),
    }
    for side, times in zip("ab", zip(*took, strict=True), strict=True):
        total = sum(times)
        open_time = sum(time for time, each in zip(times, groups, strict=True) if each.why_not)
        other = sum(time for time, each in zip(times, groups, strict=True) if each.pair.names in changed)
        result[f"total_{side}"] = total
        result[f"changed_{side}"] = (open_time + other) / total if total else 0.0
        result[f"not_judged_{side}"] = open_time / total if total else 0.0
    result["not_judged"] = [
        {"name": each.pair.name, "why": each.why_not}
        | {side: time / (result[f"total_{side}"] or 1.0) for side, time in zip("ab", times, strict=True)}
        for each, times in zip(groups, took, strict=True)
        if each.why_not
    ]
    return result


def _took(side: Side, kernel: str, group: LaunchGroup | None) -> float:
    return 0.0 if group is None else float(side.durations(side.all_launches(kernel, group)).took.sum())


def _launches(side: Side, kernel: str, group: LaunchGroup | None) -> int:
    return 0 if group is None else len(side.all_launches(kernel, group))
