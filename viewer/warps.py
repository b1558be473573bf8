"""Whole warps: how long each took, and how many of a kernel's recorded."""

from dataclasses import replace

import pandas as pd

from profscope.analysis.spans.corrections import are_corrected, weighed
from profscope.analysis.spans.rows import GROUP_COLUMNS, launch_groups, outermost
from profscope.profiles import Profile

__all__ = ["WARP", "recorded", "whole_warps"]

WARP = ["launch", "cta", "warp"]


def whole_warps(profile: Profile, unit: str) -> pd.DataFrame:
    """One row for each warp: kernel, WARP, sm; start and end as they were read; and length,
    of all its outermost spans together, without what recording took where the summary leaves that out.

    A warp that runs several partitions one after the other has several such spans.
    """
    df = profile.tables.df
    rows = outermost(df)
    roots = df.iloc[rows]
    weighs = are_corrected(profile.tables)
    lengths = (weighed(df, profile.metadata).iloc[rows] if weighs else roots)[f"duration_{unit}"]
    start = roots["start_ns" if unit == "ns" else "start_cycle"]
    table = pd.DataFrame(
        {
            "kernel": roots["kernel"].astype("str"),
            **{name: roots[name] for name in (*WARP, "sm")},
            "start": start,
            "end": start + roots[f"duration_{unit}"],
            "length": lengths,
        }
    )
    of_warp = table.groupby(["kernel", *WARP], as_index=False, sort=False)
    return of_warp.agg(
        sm=("sm", "first"), start=("start", "min"), end=("end", "max"), length=("length", "sum")
    )


def recorded(profile: Profile) -> pd.DataFrame:
    """By GROUP_COLUMNS, how many launches, ctas and warps there are figures of; int64."""
    df, key = profile.tables.df, list(GROUP_COLUMNS)
    roots = df[["kernel", *WARP]].iloc[outermost(df)]
    number, groups = launch_groups(replace(profile.tables, df=roots))
    # Numbers in place of names, which take pandas long to tell apart; a launch has one variant.
    warps = roots.assign(kernel=roots["kernel"].cat.codes, group=number).drop_duplicates()
    ctas = warps.drop_duplicates(["kernel", "group", "launch", "cta"])
    launches = ctas.drop_duplicates(["kernel", "group", "launch"])
    parts = {"launches": launches, "ctas": ctas, "warps": warps}
    counts = pd.DataFrame({name: rows.groupby(["kernel", "group"]).size() for name, rows in parts.items()})
    counts = counts.reset_index()
    names = roots["kernel"].cat.categories[counts["kernel"]].astype("str")
    variant = groups["variant"].to_numpy()[counts["group"]]
    both = counts[[*parts]].assign(kernel=names, variant=variant)
    return both.groupby(key, as_index=False).sum().astype(dict.fromkeys(parts, "int64"))
