"""Sum a span table up: one row per kernel and scope."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["PERCENTILES", "SITE_COLUMNS", "self_times", "sites", "summarise"]

SITE_COLUMNS = ("kernel", "scope", "kind", "file", "line")
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}

Ints = NDArray[np.int64]


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
    site, _ = pd.factorize(key)
    first = pd.Series(site).drop_duplicates().index
    table = df[list(SITE_COLUMNS)].iloc[first].reset_index(drop=True)
    return site.astype(np.int64, copy=False), table


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


def summarise(df: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel and scope, heaviest kernel first and within it by self time.

    Columns: kernel, scope, kind, file, line, count; then for ns and for cycles total, self, mean, p50, p90,
    p99 and max (`total_ns`, ..., `max_cycles`); and share. Percentiles are nearest-rank: durations that
    were seen. `share` is self_ns over the kernel's total warp time (the sum of its depth-0 spans), 0..1.
    """
    site, table = sites(df)
    count = np.bincount(site, minlength=len(table))
    table = table.assign(count=count)
    order = np.argsort(_narrow(site, len(table)), kind="stable")
    ends = np.cumsum(count)
    for unit in ("ns", "cycles"):
        column = f"duration_{unit}"
        duration = df[column].to_numpy()[order]
        own = self_times(df, column)[order]
        for name, values in _statistics(duration, own, ends - count, ends).items():
            table[f"{name}_{unit}"] = values
    table["share"] = table["self_ns"] / _kernel_time(df, table)
    weight = table.groupby("kernel", observed=True)["self_ns"].transform("sum")
    ranked = table.assign(weight=weight).sort_values(
        ["weight", "kernel", "self_ns", "total_ns"], ascending=[False, True, False, False], kind="stable"
    )
    return ranked.drop(columns="weight").reset_index(drop=True)


def _narrow(site: Ints, count: int) -> NDArray[np.integer]:
    # numpy's stable sort is a radix sort for 16-bit keys: 20 times faster than for 64-bit ones.
    return site.astype(np.uint16) if count <= 1 << 16 else site


def _statistics(duration: Ints, own: Ints, begins: Ints, ends: Ints) -> dict[str, NDArray[np.generic]]:
    shape = len(begins)
    result: dict[str, NDArray[np.generic]] = {
        name: np.zeros(shape, np.float64 if name == "mean" else np.int64)
        for name in ("total", "self", "mean", *PERCENTILES, "max")
    }
    for at, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        ordered = np.sort(duration[begin:end])
        total = ordered.sum()
        result["total"][at] = total
        result["self"][at] = own[begin:end].sum()
        result["mean"][at] = total / len(ordered)
        for name, fraction in PERCENTILES.items():
            result[name][at] = ordered[int(np.ceil(fraction * len(ordered))) - 1]
        result["max"][at] = ordered[-1]
    return result


def _kernel_time(df: pd.DataFrame, table: pd.DataFrame) -> NDArray[np.float64]:
    root = ((df["depth"] == 0) & (df["kind"] != "async")).to_numpy()
    codes = df["kernel"].cat.codes.to_numpy()[root]
    total = np.zeros(len(df["kernel"].cat.categories), np.int64)
    np.add.at(total, codes, df["duration_ns"].to_numpy()[root])
    ns = total[table["kernel"].cat.codes.to_numpy()].astype(np.float64)
    return np.where(ns > 0, ns, np.nan)
