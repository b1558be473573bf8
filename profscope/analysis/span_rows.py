"""What several analyses ask of a span table: which site a row is of, its own time, what it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import Tables

__all__ = [
    "GROUP_COLUMNS",
    "SITE_COLUMNS",
    "Flags",
    "Floats",
    "Ints",
    "counted",
    "ended",
    "grid_ctas",
    "grid_scales",
    "launch_groups",
    "launch_scales",
    "not_samples",
    "numbered",
    "of_which_shares_are",
    "only_trials",
    "own_times",
    "row_scales",
    "self_times",
    "sites",
]

SITE_COLUMNS = ("kernel", "scope", "kind", "file", "line", "call_path")
GROUP_COLUMNS = ("kernel", "variant", "trial")
"""Launches that are alike in these are summed up together."""

_SOME_ROWS = 1 << 16

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def sites(df: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Number the distinct SITE_COLUMNS of a span table, in order of first appearance.

    Returns one site number per row, int64 of shape (rows,), and the table of sites.
    """
    key: NDArray[np.integer] = np.zeros(len(df), np.int32)
    size = 1
    for name in SITE_COLUMNS:
        codes, least, count = _codes(df[name])
        if size * count >= 1 << 62:  # renumbered, the sites seen so far are fewer than the rows
            key, distinct = pd.factorize(key)
            size = len(distinct)
        if size * count >= 1 << 31:
            key = key.astype(np.int64, copy=False)
        np.multiply(key, count, out=key)
        np.add(key, codes, out=key)
        np.subtract(key, least, out=key)
        size *= count
    site, first = numbered(key, size)
    table = df[list(SITE_COLUMNS)].iloc[first].reset_index(drop=True)
    return site, table


def numbered(key: NDArray[np.integer], size: int) -> tuple[Ints, Ints]:
    """Keys below `size` numbered in order of first appearance; and the row where each first appears."""
    if size > 1 << 22:
        site, _ = pd.factorize(key)
        return site.astype(np.int64, copy=False), pd.Series(site).drop_duplicates().index.to_numpy()
    first_of = np.full(size, len(key))
    for begin in range((len(key) - 1) // _SOME_ROWS * _SOME_ROWS, -1, -_SOME_ROWS):
        part = key[begin : begin + _SOME_ROWS]
        first_of[part[::-1]] = np.arange(begin + len(part) - 1, begin - 1, -1)  # the last one put there stays
    first = np.sort(first_of[first_of < len(key)])
    number = np.empty(size, np.int64)
    number[key[first]] = np.arange(len(first))
    return number[key], first


def _codes(column: pd.Series[Any]) -> tuple[NDArray[np.integer], int, int]:
    """A column's values as numbers, the least that there may be, and how many."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(), -1, len(column.cat.categories) + 1
    values = column.to_numpy()
    least = int(values.min()) if len(values) else 0
    return values, least, int(values.max(initial=least)) - least + 1


def launch_groups(tables: Tables) -> tuple[Ints, pd.DataFrame]:
    """Number the distinct GROUP_COLUMNS of the launches.

    Returns the group of each span, int64 of shape (rows,), and the table of groups.
    """
    launches = tables.launches
    key = launches[list(GROUP_COLUMNS)]
    number = key.groupby(list(GROUP_COLUMNS), sort=False).ngroup().to_numpy(np.int64)
    of_launch = pd.Series(number, launches["launch"].to_numpy())
    group = of_launch.reindex(tables.df["launch"].to_numpy()).fillna(0).to_numpy(np.int64)
    return group, key.drop_duplicates().reset_index(drop=True)


def self_times(df: pd.DataFrame, column: str) -> Ints:
    """Each row's own time: its duration less that of its synchronous children, int64 of shape (rows,).

    df: spans, or sites with sums of their durations; columns kind, parent and the one that is named.

    0 for async spans: what is in flight takes no time of the warp.
    """
    return own_times(df[column].to_numpy(), df["parent"].to_numpy(), (df["kind"] != "async").to_numpy())


def own_times(duration: Ints, parent: Ints, synchronous: Flags) -> Ints:
    """As `self_times`, of columns."""
    own = duration.copy()
    child = np.flatnonzero((parent >= 0) & synchronous)
    np.subtract.at(own, parent[child], duration[child])
    own *= synchronous
    return own


def row_scales(tables: Tables) -> Floats | None:
    """By span: for how many CTAs of its launch's grid each recorded one stands; None if each is for itself.

    float64 of shape (rows,). Where the recorded CTAs do not speak for the grid (see `not_samples`), it is 1.
    """
    scale = launch_scales(tables)
    if not (scale != 1).any():
        return None
    of_launch = pd.Series(scale, tables.launches["launch"])
    return np.asarray(of_launch.reindex(tables.df["launch"]).fillna(1.0), np.float64)


def launch_scales(tables: Tables) -> Floats:
    """By row of the table of launches: for how many CTAs of its grid each recorded one stands, see
    `row_scales`."""
    alone = tables.launches["kernel"].isin(not_samples(tables.metadata))
    return np.where(alone, 1.0, grid_scales(tables.launches))


def counted(launches: pd.DataFrame) -> NDArray[np.bool_]:
    """By launch: whether it counts as one. Not where CTAs were to record and none came to its end."""
    return ((launches["ctas"] > 0) | (launches["unfinished"] == 0)).to_numpy()


def of_which_shares_are(rows: pd.DataFrame) -> pd.Series[bool]:
    """By row with a column "trial": whether it counts where kernels share what all took. An autotuner's
    trials stand apart, and do not, unless there is nothing else."""
    return ~rows["trial"] | bool(rows["trial"].all())


def only_trials(launches: pd.DataFrame) -> bool:
    """Whether an autotuner's trials are all that was recorded."""
    return len(launches) > 0 and bool(launches["trial"].all())


def ended(launches: pd.DataFrame) -> pd.DataFrame:
    """Those whose times are known: they took some, and all CTAs that were to record came to their end."""
    return launches[(launches["end_ns"] > launches["start_ns"]) & (launches["unfinished"] == 0)]


def grid_ctas(launches: pd.DataFrame) -> Floats:
    """By launch: the CTAs of its grid."""
    sizes = launches[["grid_x", "grid_y", "grid_z", "num_ctas"]].to_numpy(np.float64)
    return np.asarray(sizes.prod(axis=1), np.float64)


def grid_scales(launches: pd.DataFrame) -> Floats:
    """By launch: the CTAs of its grid over those that were to record, 1 where either is unknown.

    CTAs that were to record and did not come to their end are no choice, so nothing stands for them.
    """
    chosen = (launches["ctas"] + launches["unfinished"]).to_numpy()
    return np.where(chosen > 0, np.maximum(grid_ctas(launches) / np.maximum(chosen, 1), 1.0), 1.0)


def not_samples(metadata: dict[str, Any]) -> frozenset[str]:
    """The kernels of a profile whose recorded CTAs do not speak for their grids."""
    kernels = metadata.get("kernels") or {}
    recorded = {name: about.get("recorded", {}) for name, about in kernels.items()}
    return frozenset(name for name, about in recorded.items() if not about.get("sample", True))
