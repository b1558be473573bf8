"""Sum a span table up: one row per kernel and scope."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["PERCENTILES", "SITE_COLUMNS", "row_scales", "self_times", "sites", "summarise", "with_launches"]

SITE_COLUMNS = ("kernel", "scope", "kind", "file", "line")
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def sites(df: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Number the distinct (kernel, scope, kind, file, line) of a span table, in order of first appearance.

    Returns one site number per row, int64 of shape (rows,), and the table of sites.
    """
    key, size = np.zeros(len(df), np.int64), 1
    for name in SITE_COLUMNS:
        codes, count = _codes(df[name])
        if size * count >= 1 << 62:  # renumbered, the sites seen so far are fewer than the rows
            key, distinct = pd.factorize(key)
            size = len(distinct)
        key, size = key * count + codes, size * count
    site, first = _numbered(key, size)
    table = df[list(SITE_COLUMNS)].iloc[first].reset_index(drop=True)
    return site, table


def _numbered(key: Ints, size: int) -> tuple[Ints, Ints]:
    """Keys below `size` numbered in order of first appearance; and the row where each first appears."""
    if size > 1 << 22:
        site, _ = pd.factorize(key)
        return site.astype(np.int64, copy=False), pd.Series(site).drop_duplicates().index.to_numpy()
    row_of_key = np.full(size, -1, np.int64)
    row_of_key[key[::-1]] = np.arange(len(key))[::-1]  # of several the last is kept, which is the first row
    first = np.sort(row_of_key[row_of_key >= 0])
    number = np.empty(size, np.int64)
    number[key[first]] = np.arange(len(first))
    return number[key], first


def _codes(column: "pd.Series[Any]") -> tuple[Ints, int]:
    """A column's values as numbers from 0, and how many there may be."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64) + 1, len(column.cat.categories) + 1
    values = column.to_numpy().astype(np.int64)
    least = int(values.min()) if len(values) else 0
    return values - least, int(values.max(initial=least)) - least + 1


def self_times(df: pd.DataFrame, column: str) -> Ints:
    """A span's own time: its duration less that of its synchronous children, int64 of shape (rows,).

    0 for async spans: what is in flight takes no time of the warp.
    """
    duration = df[column].to_numpy()
    synchronous = (df["kind"] != "async").to_numpy()
    parent = df["parent"].to_numpy()
    own = np.where(synchronous, duration, 0)
    child = np.flatnonzero(synchronous & (parent >= 0))
    np.subtract.at(own, parent[child], duration[child])
    return np.where(synchronous, own, 0)


def row_scales(
    df: pd.DataFrame, launches: pd.DataFrame, unscaled: frozenset[str] = frozenset()
) -> Floats | None:
    """By span: for how many CTAs of its launch's grid each recorded one stands; None if each is for itself.

    unscaled: kernels whose recorded CTAs do not speak for the grid.
    """
    scale = pd.Series(np.where(launches["kernel"].isin(unscaled), 1.0, _scales(launches)), launches["launch"])
    if not (scale != 1).any():
        return None
    return np.asarray(scale.reindex(df["launch"]).fillna(1.0), np.float64)


def _scales(launches: pd.DataFrame) -> Floats:
    """By launch: the CTAs of its grid over those recorded, 1 where either is unknown."""
    grid = launches[["grid_x", "grid_y", "grid_z", "num_ctas"]].astype("float64").prod(axis=1).to_numpy()
    recorded = launches["ctas"].to_numpy()
    return np.where(recorded > 0, np.maximum(grid / np.maximum(recorded, 1), 1.0), 1.0)


def summarise(
    df: pd.DataFrame, launches: pd.DataFrame, unscaled: frozenset[str] = frozenset()
) -> pd.DataFrame:
    """One row per kernel and scope, heaviest kernel first and within it by self time.

    Columns: kernel, scope, kind, file, line, count; then for ns and for cycles total, self, mean, p50, p90,
    p99 and max (`total_ns`, ..., `max_cycles`); share; sampled. Percentiles are nearest-rank: durations that
    were seen. `share` is self_ns over the kernel's total warp time (the sum of its depth-0 spans), 0..1.
    Where a launch recorded only some of its CTAs, counts, totals and self times are scaled up to its whole
    grid: estimates then, and `sampled`, the part of the kernel's CTAs that was recorded, is less than 1.
    Kernels in `unscaled` recorded CTAs that do not speak for the grid; theirs are sums of what was recorded.
    """
    site, table = sites(df)
    each = row_scales(df, launches, unscaled)
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


def with_launches(table: pd.DataFrame, launches: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
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
    counts = pd.DataFrame({"recorded": recorded, "all": recorded * _scales(launches)})
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
