"""Which of the things that several ranks did are the same one: the n-th of each, or n-th from the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.span_rows import Ints
from profscope.schema import Tables

__all__ = ["host_clock_error_ns", "numbers"]


def numbers(name: NDArray[Any], rank: Ints, start: Ints, end: Ints) -> Ints:
    """For each row which occurrence of its name it is on its rank, by start, from 0 on; int64, shape (rows,).

    Ranks run one program, so the n-th of each is the same. Where recording began later on some rank, there
    are fewer on it, and they are counted from the last one if more of them then were under way at once.
    """
    table = pd.DataFrame({"name": name, "rank": rank, "start": start, "end": end})
    ordered = table.sort_values("start", kind="stable")
    nth = ordered.groupby(["name", "rank"], sort=False).cumcount().reindex(table.index)
    count = table.groupby(["name", "rank"], sort=False)["start"].transform("size")
    from_last = nth + count.groupby(table["name"]).transform("max") - count
    if not (nth == from_last).all():
        better = _together(table, from_last) > _together(table, nth)
        nth = nth.mask(table["name"].isin(better.index[better]), from_last)
    return np.asarray(nth, np.int64)


def host_clock_error_ns(tables: Tables) -> float | None:
    """By how much a difference of times of two ranks' hosts may be off; None where these are not on one
    clock, or there is one rank only."""
    ranks = tables.metadata.get("ranks") or []
    errors = [each.get("host_clock_error_ns") for each in ranks]
    if len(errors) < 2 or None in errors:
        return None
    return float(sum(sorted(errors)[-2:]))


def _together(table: pd.DataFrame, number: pd.Series[Any]) -> pd.Series[Any]:
    """By name, how many rows have others of their number on other ranks, all under way at one moment."""
    groups = table.groupby([table["name"], number], sort=False)
    at_once = groups["start"].transform("max") < groups["end"].transform("min")
    several = groups["rank"].transform("nunique") > 1
    return (at_once & several).groupby(table["name"]).sum()
