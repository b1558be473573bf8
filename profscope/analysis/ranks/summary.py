"""The work of each rank of a job, and the rank that the others wait for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.ranks.skew import are_aligned, same_launches
from profscope.analysis.spans.rows import covered
from profscope.schema import Tables

__all__ = ["RANK_DTYPES", "summary"]

RANK_DTYPES: Final = {
    "rank": "int64",
    "host": "str",
    "device": "int64",
    "launches": "int64",
    "busy_ns": "int64",
    "common_ns": "int64",
    "slowest": "int64",
    "median_lag_ns": "float64",
    "clock_error_ns": "float64",
}
"""The columns of `prof.ranks.summary()`, with their pandas dtypes, in order."""


def summary(tables: Tables) -> pd.DataFrame:
    """The work of each rank of a job: one row per rank, the one whose launches took longest first.

        rank  host   device  launches  busy_ns  common_ns  slowest  median_lag_ns  clock_error_ns
           3  node1       1       135  4120000    4100000      120          900.0          1260.0

    busy_ns: how long at least one of its launches ran. common_ns: of the launches that all ranks have made
    (see `skew`) their own durations, added up; slowest: at how many of these it took longer than the others.
    median_lag_ns: how long after the first rank it began them, the median; missing if the ranks' times are
    not on one clock. clock_error_ns: by so much its times may be off on that clock.

    Empty for a profile of one process.
    """
    every = tables.launches[tables.launches["rank"] >= 0]
    common = same_launches(tables)
    groups = common.groupby(["kernel", "variant", "number"], sort=False)
    number = every["rank"].nunique()
    common = common.assign(
        lag=common["start_ns"] - groups["start_ns"].transform("min"),
        slowest=groups["duration_ns"].rank(method="max", ascending=False) == 1,  # of a tie none is first
        shared=groups["rank"].transform("nunique"),
    )
    common = common[common["shared"] == number]
    stated = {each["rank"]: each for each in tables.metadata.get("ranks") or []}
    rows = []
    for rank, launches in every.groupby("rank"):
        own, about = common[common["rank"] == rank], stated.get(rank, {})
        rows.append(
            {
                "rank": rank,
                "host": (about.get("job") or {}).get("host") or "",
                "device": launches["device"].iloc[0],
                "launches": len(launches),
                "busy_ns": int(covered(launches["start_ns"].to_numpy(), launches["end_ns"].to_numpy())),
                "common_ns": own["duration_ns"].sum(),
                "slowest": own["slowest"].sum(),
                "median_lag_ns": own["lag"].median() if are_aligned(tables) else np.nan,
                "clock_error_ns": about.get("clock_error_ns", np.nan),
            }
        )
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in RANK_DTYPES}
    table = pd.DataFrame(columns).astype(RANK_DTYPES)
    return table.sort_values("common_ns", ascending=False, kind="stable", ignore_index=True)
