"""Sum a span table up: one row per kernel and scope."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans import Floats, Ints, grid_scales, row_scales, self_times, sites
from profscope.analysis.work import with_work
from profscope.schema import Tables

__all__ = ["PERCENTILES", "summary"]

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def summary(tables: Tables) -> pd.DataFrame:
    """One row per kernel and scope, heaviest kernel first and within it by self time.

    Columns: kernel, scope, kind, file, line, count; then for ns and for cycles total, self, mean, p50, p90,
    p99 and max (`total_ns`, ..., `max_cycles`); share; sampled; those of `with_work`; launches and
    launches_seen. Percentiles are nearest-rank: durations that were seen. `share` is self_ns over the
    kernel's total warp time (the sum of its depth-0 spans), 0..1.
    Where a launch recorded only some of its CTAs, counts, totals and self times are scaled up to its whole
    grid: estimates then, and `sampled`, the part of the kernel's CTAs that was recorded, is less than 1.
    Where the recorded CTAs do not speak for the grid, they are sums of what was recorded.

    The index of an emulated profile's summary is named "EMULATED", which shows wherever it is printed.
    """
    table = with_work(_summed(tables), tables.launches, tables.metadata)
    table = _with_launches(table, tables.launches, tables.metadata)
    return table.rename_axis(index="EMULATED" if tables.emulated else None)


def _summed(tables: Tables) -> pd.DataFrame:
    """The columns that the spans themselves give."""
    df, launches = tables.df, tables.launches
    site, table = sites(df)
    each = row_scales(tables)
    seen = np.bincount(site, minlength=len(table))
    table = table.assign(count=seen if each is None else _sums(site, len(table), np.ones(len(df)), each))
    order = np.argsort(_narrow(site, len(table)), kind="stable")
    ends = np.cumsum(seen)
    for unit in ("ns", "cycles"):
        column = f"duration_{unit}"
        duration, own = df[column].to_numpy(), self_times(df, column)
        table[f"total_{unit}"] = _sums(site, len(table), duration, each)
        table[f"self_{unit}"] = _sums(site, len(table), own, each)
        for name, values in _statistics(duration[order], ends - seen, ends).items():
            table[f"{name}_{unit}"] = values
    table["share"] = table["self_ns"] / _kernel_time(df, table, each)
    table["sampled"] = table["kernel"].astype("str").map(_sampled(launches)).astype("float64").fillna(1.0)
    weight = table.groupby("kernel", observed=True)["self_ns"].transform("sum")
    ranked = table.assign(weight=weight).sort_values(
        ["weight", "kernel", "self_ns", "total_ns"], ascending=[False, True, False, False], kind="stable"
    )
    return ranked.drop(columns="weight").reset_index(drop=True)


def _with_launches(table: pd.DataFrame, launches: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A summary with the columns launches, the kernel's launches that were recorded, and launches_seen, those
    there were: more where `session(every=...)` recorded only some. Nothing is scaled up to the latter."""
    recorded = launches["kernel"].value_counts()
    beside = launches.loc[
        launches["trial"] | (launches["graph"] >= 0), "kernel"
    ].value_counts()  # never left out
    seen = {
        name: counts["launches"] + int(beside.get(name, 0))
        for name, counts in metadata.get("sampling", {}).get("kernels", {}).items()
    }
    kernels = table["kernel"].astype("str")
    counts = kernels.map(recorded).fillna(0).astype("int64")
    every = [seen.get(name, count) for name, count in zip(kernels, counts, strict=True)]
    return table.assign(launches=counts, launches_seen=np.asarray(every, np.int64))


def _sampled(launches: pd.DataFrame) -> dict[str, float]:
    """By kernel: recorded CTAs over all."""
    recorded = launches["ctas"].to_numpy().astype(np.float64)
    counts = pd.DataFrame({"recorded": recorded, "all": recorded * grid_scales(launches)})
    total = counts.groupby(launches["kernel"].to_numpy()).sum()
    ratio = total["recorded"] / total["all"].replace(0, np.nan)
    return dict(zip(total.index, ratio, strict=True))


def _sums(key: NDArray[np.integer], count: int, values: Ints | Floats, scale: Floats | None) -> Ints:
    """Sums of values by key: exact, or, scaled, rounded; int64 of shape (count,)."""
    if scale is not None:
        return np.rint(np.bincount(key, values * scale, minlength=count)).astype(np.int64)
    total = np.zeros(count, np.int64)
    np.add.at(total, key, values)
    return total


def _narrow(site: Ints, count: int) -> NDArray[np.integer]:
    # numpy's stable sort is a radix sort for 16-bit keys: 20 times faster than for 64-bit ones.
    return site.astype(np.uint16) if count <= 1 << 16 else site


def _statistics(duration: Ints, begins: Ints, ends: Ints) -> dict[str, NDArray[np.generic]]:
    shape = len(begins)
    result: dict[str, NDArray[np.generic]] = {
        name: np.zeros(shape, np.float64 if name == "mean" else np.int64)
        for name in ("mean", *PERCENTILES, "max")
    }
    for at, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        ordered = np.sort(duration[begin:end])
        result["mean"][at] = ordered.sum() / len(ordered)
        for name, fraction in PERCENTILES.items():
            result[name][at] = ordered[int(np.ceil(fraction * len(ordered))) - 1]
        result["max"][at] = ordered[-1]
    return result


def _kernel_time(df: pd.DataFrame, table: pd.DataFrame, scale: Floats | None) -> Floats:
    root = ((df["depth"] == 0) & (df["kind"] != "async")).to_numpy()
    codes = df["kernel"].cat.codes.to_numpy()[root]
    duration = df["duration_ns"].to_numpy()[root]
    total = _sums(codes, len(df["kernel"].cat.categories), duration, None if scale is None else scale[root])
    ns = total[table["kernel"].cat.codes.to_numpy()].astype(np.float64)
    return np.where(ns > 0, ns, np.nan)
