"""The time differences between the ranks of a job, launch by launch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.schema import Tables

__all__ = ["SKEW_DTYPES", "are_aligned", "same_launches", "skew"]

SKEW_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "number": "int64",
    "ranks": "int64",
    "first_rank": "Int64",
    "last_rank": "Int64",
    "start_skew_ns": "Int64",
    "end_skew_ns": "Int64",
    "slowest_rank": "int64",
    "shortest_ns": "int64",
    "longest_ns": "int64",
}
"""The columns of `skew`, with their pandas dtypes, in order."""


def skew(tables: Tables) -> pd.DataFrame:
    """How far the ranks of a job are apart: a row for each launch that several of them have made.

        kernel         number  ranks  first_rank  last_rank  start_skew_ns  slowest_rank  longest_ns
        matmul_kernel       0      4           2          3          41200             1      190310

    number: the n-th launch of this kernel and variant on each rank counts as the same launch: all ranks run
    one program. There are no rows if ranks recorded different launches: with `overhead_pct=`, and for kernels
    of torch.compile that ran bare until their binaries were built. ranks: how many made it.
    first_rank, last_rank: the ranks that began first and last; start_skew_ns, end_skew_ns: from the first to
    the last begin, and end. They are missing if the ranks' times are not on one clock; their error is
    `attrs["clock_error_ns"]`.
    slowest_rank, shortest_ns, longest_ns: of each launch's own duration, which needs no common clock.

    attrs has "clock_error_ns", the two greatest errors of ranks added up, None if clocks are not aligned,
    and "not_measured": why rows or times are missing, and that ranks have made other numbers of launches.
    """
    aligned = are_aligned(tables)
    launches = same_launches(tables)
    key = ["kernel", "variant", "number"]
    groups = launches.groupby(key, sort=False)
    columns: dict[str, Any] = {"ranks": groups["rank"].nunique()}
    for name, column, last in (("first_rank", "start_ns", False), ("last_rank", "start_ns", True)):
        columns[name] = _rank_of(launches, key, column, last=last)
    for name, column in (("start_skew_ns", "start_ns"), ("end_skew_ns", "end_ns")):
        columns[name] = groups[column].max() - groups[column].min()
    columns["slowest_rank"] = _rank_of(launches, key, "duration_ns", last=True)
    columns["shortest_ns"], columns["longest_ns"] = groups["duration_ns"].min(), groups["duration_ns"].max()
    table = pd.DataFrame(columns).reset_index()
    if not aligned:
        table[["first_rank", "last_rank", "start_skew_ns", "end_skew_ns"]] = pd.NA
    table = table[list(SKEW_DTYPES)].astype(SKEW_DTYPES)
    errors = sorted(each.get("clock_error_ns") or 0.0 for each in tables.metadata.get("ranks") or [])
    table.attrs["clock_error_ns"] = float(sum(errors[-2:])) if aligned else None
    table.attrs["not_measured"] = _not_measured(tables, table, aligned)
    return table


def same_launches(tables: Tables) -> pd.DataFrame:
    """Launches that several ranks have made, with their `number` and `duration_ns`, without those that cannot
    be matched."""
    launches = tables.launches
    unpaired = launches["kernel"].isin(_bare_while_built(tables)) | _in_windows(tables)
    launches = launches[(launches["rank"] >= 0) & ~unpaired]
    number = launches.groupby(["rank", "kernel", "variant"], sort=False).cumcount()
    launches = launches.assign(number=number, duration_ns=launches["end_ns"] - launches["start_ns"])
    ranks = launches.groupby(["kernel", "variant", "number"], sort=False)["rank"].transform("nunique")
    return launches[ranks > 1]


def _in_windows(tables: Tables) -> bool:
    """Whether launches were recorded in windows of time, of which each rank has its own."""
    budget = tables.metadata.get("budget")
    return budget is not None and budget["open_ns"] < budget["elapsed_ns"]


def _bare_while_built(tables: Tables) -> list[str]:
    """Kernels of which each rank may have begun to record at another launch."""
    return sorted((tables.metadata.get("building") or {}).get("bare_launches") or {})


def are_aligned(tables: Tables) -> bool:
    """Whether all ranks' times are on one clock."""
    ranks = tables.metadata.get("ranks") or []
    return len(ranks) > 1 and all(each.get("clock") == "aligned" for each in ranks)


def _rank_of(launches: pd.DataFrame, key: list[str], column: str, *, last: bool) -> pd.Series[Any]:
    ordered = launches.sort_values(column, kind="stable")
    groups = ordered.groupby(key, sort=False)["rank"]
    return groups.last() if last else groups.first()


def _not_measured(tables: Tables, table: pd.DataFrame, aligned: bool) -> list[str]:
    ranks = np.unique(tables.launches["rank"])
    if len(ranks) < 2:
        return ["skew: this profile is of one process"]
    if _in_windows(tables):
        return [
            "skew: each rank recorded in windows of time of its own (overhead_pct=), so launches of ranks "
            "cannot be paired; without overhead_pct= they can, also with every=n; collectives() needs none"
        ]
    said = [] if aligned else ["start and end skew: the ranks' times are not on one clock"]
    if late := _bare_while_built(tables):
        said.append(
            f"skew of {', '.join(late)}: ranks launched them bare until their binaries were built, so that "
            "launches of ranks cannot be paired; with wait=True they can"
        )
    alone = int((table["ranks"] < len(ranks)).sum())
    if alone:
        said.append(f"{alone} of these launches were not recorded on all {len(ranks)} ranks")
    return said
