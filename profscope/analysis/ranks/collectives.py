"""The time that each rank of a job waited for the others in collectives.

Which events of several ranks are one collective follows from their order: the n-th of each, or n-th from the
last.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import Ints
from profscope.schema import Tables

__all__ = ["collectives", "host_clock_error_ns"]


def _numbers(name: NDArray[Any], rank: Ints, start: Ints, end: Ints) -> Ints:
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
    """By how much a difference of times of two ranks' hosts may be off; None if these are not on one
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


COLLECTIVE_DTYPES: Final = {
    "name": "str",
    "group": "str",
    "number": "int64",
    "rank": "int32",
    "ranks": "int64",
    "start_unix_ns": "int64",
    "duration_ns": "int64",
    "late_ns": "Int64",
    "waiting_ns": "Int64",
    "transfer_ns": "Int64",
    "last_rank": "Int64",
    "host": "int64",
}
"""The columns of `collectives`, with their pandas dtypes, in order."""

_GLOO: Final = "gloo:"
_PAIRS: Final = "SendRecv|gloo:send|gloo:recv"
_TIMER_NS: Final = 1000.0
"""By so much Kineto's times of a GPU are taken to be off on its host's clock. An assumption: two H200 of a
host ended NCCL's all-reduces 0.6 us apart by these times, the median of 93 (docs/benchmarks.md)."""


def collectives(tables: Tables) -> pd.DataFrame:
    """The waits of ranks for each other in collectives: one row per collective and rank, in order of time.

        name                  group              number  rank  ranks  duration_ns  late_ns  waiting_ns  ...
        ncclDevKernel_AllR... tp 3: ranks 0, 1        7     0      2      5031000        0     5012000
        ncclDevKernel_AllR... tp 3: ranks 0, 1        7     1      2        19500  5012000           0

    group: the process group, "" if unknown. number: the n-th of this name and group on each rank
    is the same collective; ranks: how many have it. late_ns: how long after the first
    rank it began there; last_rank: where it began last. waiting_ns: until the last rank had begun, too;
    transfer_ns: the rest of its duration. host: the row of the scope that it was launched in, -1 for none.

    These are NCCL's kernels, and gloo's work on the host. Sends and receives, which pair two ranks, are left
    out. Waiting is missing if some rank had ended before another began: a rank that sends need not wait
    for those that receive; or, if groups are unknown, it is not the same collective.

    attrs has "clock_error_ns": by so much late_ns and waiting_ns may be off, None if the ranks' times are
    not on one clock, and both are missing; "ranks": by rank "collective_ns" and
    "waiting_ns", of all; "groups": the same by group and rank; and "not_measured": why figures are missing.
    """
    table = _collective_events(tables)
    clock_error_ns = host_clock_error_ns(tables)
    error_ns = None if clock_error_ns is None else clock_error_ns + 2 * _TIMER_NS
    times = [table[name].to_numpy(np.int64) for name in ("rank", "start_unix_ns", "end_unix_ns")]
    table["key"] = pd.factorize(pd.MultiIndex.from_frame(table[["name", "group"]]))[0]
    table["number"] = _numbers(table["key"].to_numpy(), *times)
    table["duration_ns"] = times[2] - times[1]
    groups = table.groupby(["key", "number"], sort=False)
    table["ranks"] = groups["rank"].transform("nunique")
    first, last = (groups["start_unix_ns"].transform(which) for which in ("min", "max"))
    first_end = groups["end_unix_ns"].transform("min")
    shared = (table["ranks"] > 1) & (error_ns is not None)
    met = shared & (first_end + (error_ns or 0.0) >= last)
    waiting = (last - table["start_unix_ns"]).clip(upper=table["duration_ns"])
    table["late_ns"] = (table["start_unix_ns"] - first).astype("Int64").where(shared)
    table["waiting_ns"] = waiting.astype("Int64").where(met)
    table["transfer_ns"] = (table["duration_ns"] - waiting).astype("Int64").where(met)
    latest = table["rank"].where(table["start_unix_ns"] == last)
    last_rank = latest.groupby([table["key"], table["number"]], sort=False).transform("min")
    table["last_rank"] = last_rank.astype("Int64").where(shared)
    order = np.lexsort((table["rank"], table["number"], table["group"], table["name"], first))
    result = table.iloc[order][list(COLLECTIVE_DTYPES)].astype(COLLECTIVE_DTYPES).reset_index(drop=True)
    result.attrs["clock_error_ns"] = error_ns
    result.attrs["ranks"] = _by_rank(result)
    result.attrs["groups"] = {group: _by_rank(of_group) for group, of_group in result.groupby("group")}
    result.attrs["not_measured"] = _not_measured(tables, result)
    return result


def _by_rank(table: pd.DataFrame) -> dict[int, dict[str, int]]:
    """By rank, "collective_ns" and "waiting_ns" of all its collectives in the table."""
    sums = table.groupby("rank").agg(collective_ns=("duration_ns", "sum"), waiting_ns=("waiting_ns", "sum"))
    named: Any = sums.astype("int64").to_dict("index")
    return {int(rank): figures for rank, figures in named.items()}


def _collective_events(tables: Tables) -> pd.DataFrame:
    events = tables.events
    names = events["name"].cat.categories
    code = events["name"].cat.codes.to_numpy()
    of_gloo = names.str.startswith(_GLOO)[code] if len(names) else np.zeros(0, np.bool_)
    of_pairs = names.str.contains(_PAIRS)[code] if len(names) else np.zeros(0, np.bool_)
    rows = ((events["kind"] == "collective").to_numpy() | of_gloo) & ~of_pairs
    columns = ("name", "rank", "start_unix_ns", "end_unix_ns", "host")
    ours: dict[str, Any] = {name: events[name].to_numpy()[rows] for name in columns if name != "name"}
    texts = {name: events[name].astype("str").to_numpy()[rows] for name in ("name", "group")}
    return pd.DataFrame({**texts, **ours})


def _not_measured(tables: Tables, table: pd.DataFrame) -> list[str]:
    if not len(tables.events):
        return ["collectives: no events were recorded; session(events=True)"]
    if not len(table):
        return ["collectives: no event is one of NCCL's or gloo's"]
    if len(tables.metadata.get("ranks") or []) < 2:
        return ["waiting: this profile is of one process"]
    if table.attrs["clock_error_ns"] is None:
        return ["waiting: the hosts' clocks are not on one clock"]
    of_each = table.drop_duplicates(["name", "group", "number"])
    alone = int((of_each["ranks"] < 2).sum())
    apart = int(((of_each["ranks"] > 1) & of_each["waiting_ns"].isna()).sum())
    said = [f"waiting in {alone:,} collectives: one rank alone has them"] if alone else []
    if apart:
        said.append(f"waiting in {apart:,} collectives: a rank had ended before another began")
    nameless = int((of_each["group"] == "").sum())
    if nameless and len(tables.metadata["ranks"]) > 2:  # two ranks can hardly be in different groups
        said.append(
            f"the process group of {nameless:,} collectives: gloo does not say it, nor NCCL of "
            "coalesced ones; those of one name were taken to be of one group"
        )
    return said
