"""What of a profile is shown, chosen once, before any view; and whose timeline is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from profscope.analysis.spans.rows import outermost
from profscope.profiles import Profile
from profscope.traces.selecting import selected
from profscope.traces.trace_filter import TraceFilter as Selection

__all__ = ["Choice", "Selection", "choose_cta", "select"]


def select(profile: Profile, selection: Selection) -> Profile:
    """The profile of what is asked for alone, see `selected`; the same one where that is everything."""
    return profile if selection.is_all else Profile.of(selected(profile.tables, selection))


@dataclass(frozen=True)
class Choice:
    """One CTA of one launch: which it is, and its rank by duration among `candidates` CTAs of that kernel."""

    kernel: str
    launch: int
    cta: int
    rank: int
    candidates: int


def choose_cta(df: pd.DataFrame, kernels: Sequence[str]) -> Choice | None:
    """The CTA of median duration of the first of these kernels that has any; None if none has."""
    roots = df[["kernel", "launch", "cta", "start_ns", "duration_ns"]].iloc[outermost(df)]
    roots = roots[roots["cta"] >= 0]
    present = set(roots["kernel"].astype("str"))
    kernel = next((name for name in kernels if name in present), None)
    if kernel is None:
        return None
    roots = roots[roots["kernel"] == kernel]
    end = roots["start_ns"] + roots["duration_ns"]
    ctas = roots.assign(end=end).groupby(["launch", "cta"]).agg(start=("start_ns", "min"), end=("end", "max"))
    duration = (ctas["end"] - ctas["start"]).sort_values(kind="stable")
    rank = (len(duration) - 1) // 2
    launch, cta = duration.index[rank]
    return Choice(kernel, int(launch), int(cta), rank, len(duration))
