"""What several analyses ask of a table of sums: the figures of each scope and its own time."""

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import GROUP_COLUMNS, SITE_COLUMNS, self_times

__all__ = ["KEY_COLUMNS", "UNITS", "summed"]

UNITS = ("ns", "cycles")
KEY_COLUMNS = (*GROUP_COLUMNS, *SITE_COLUMNS[1:])
"""What tells the rows of a summary apart."""


def summed(sums: pd.DataFrame, unit_of_root: str) -> pd.DataFrame:
    """One row per KEY_COLUMNS of the sites that ran, with int64 figures.

    seen: how often it ran in recorded CTAs, for `seen_ns` and `seen_cycles`; count, total and self: scaled up
    to whole grids; root: the total in `unit_of_root` where it is all of a warp's time; longest: -1
    where it was not kept.
    """
    root = ((sums["parent"] < 0) & (sums["kind"] != "async")).to_numpy()
    table = sums[list(KEY_COLUMNS)].assign(
        seen=sums["count"], count=sums["grid_count"], root=np.where(root, sums[f"grid_{unit_of_root}"], 0)
    )
    for unit in UNITS:
        table[f"seen_{unit}"] = sums[f"total_{unit}"]
        table[f"total_{unit}"] = sums[f"grid_{unit}"]
        table[f"self_{unit}"] = self_times(sums, f"grid_{unit}")
    table = table.assign(**{name: sums[name] for name in ("longest_ns", "longest_cycles")})[sums["count"] > 0]
    by_key = table.groupby(list(KEY_COLUMNS), sort=False)
    result = by_key.sum()
    for name in ("longest_ns", "longest_cycles"):
        result[name] = by_key[name].max().where(by_key[name].min() >= 0, -1)
    return result.reset_index()
