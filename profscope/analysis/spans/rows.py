"""Properties of a span table's rows that several analyses use: site, own time, weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.pieces import Numbers, even_pieces, numbers_by
from profscope.schema import Tables

__all__ = [
    "GROUP_COLUMNS",
    "SITE_COLUMNS",
    "Flags",
    "Floats",
    "Ints",
    "Numbers",
    "OfLaunches",
    "begins_of_runs",
    "counted",
    "covered",
    "ended",
    "grid_ctas",
    "grid_scales",
    "group_keys",
    "group_numbers",
    "launch_groups",
    "launch_scales",
    "narrow_sites",
    "not_samples",
    "numbered",
    "outermost",
    "own_times",
    "scales",
    "self_times",
    "sites",
]

SITE_COLUMNS = ("kernel", "scope", "kind", "file", "line", "call_path")
GROUP_COLUMNS = ("kernel", "variant")
"""Launches that are alike in these are summed up together."""

_EXACT = 2.0**53
"""Up to here float64 has every whole number."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = TypeVar("Row", bound=np.generic)


class OfLaunches(Generic[Row]):
    """A number for each launch, found by the launch that a span is of."""

    def __init__(self, launches: pd.DataFrame, values: NDArray[Row], otherwise: Row | float) -> None:
        """values: by row of the table of launches; otherwise: that of spans of no launch in it."""
        launch = launches["launch"].to_numpy()
        order = np.argsort(launch, kind="stable")
        self._launch = launch[order]
        self._values = np.append(values[order], np.array([otherwise], values.dtype))

    def of(self, launch: NDArray[np.integer]) -> NDArray[Row]:
        """By span. launch: the span table's column, or a piece of it."""
        begins = begins_of_runs(launch)
        first = launch[begins]
        at = np.searchsorted(self._launch, first)
        known = np.append(self._launch, -1)[at] == first
        return np.repeat(self._values[np.where(known, at, -1)], np.diff(begins, append=len(launch)))


def begins_of_runs(values: NDArray[np.integer]) -> Ints:
    """Where values begin that differ from those before them."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def outermost(df: pd.DataFrame) -> Ints:
    """The rows of spans that are of whole warps."""
    rows: Ints = np.flatnonzero(df["depth"].to_numpy() == 0)
    synchronous: Flags = np.asarray(df["kind"].array[rows] != "async")
    return rows[synchronous]


def sites(df: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Number the distinct SITE_COLUMNS of a span table, in order of first appearance.

    Returns one site number per row, int64 of shape (rows,), and the table of sites.
    """
    site, table = narrow_sites(df)
    return site.astype(np.int64), table


def narrow_sites(df: pd.DataFrame) -> tuple[Numbers, pd.DataFrame]:
    """As `sites`, with the numbers in the narrowest unsigned dtype that holds them."""
    columns = [_codes(df[name]) for name in SITE_COLUMNS]
    if math.prod(column.kinds for column in columns) >= 1 << 62:
        columns = [_together(columns)]
    size = math.prod(column.kinds for column in columns)

    def key_of(part: slice) -> NDArray[np.integer]:
        key = np.zeros(part.stop - part.start, np.int32 if size < 1 << 31 else np.int64)
        for values, least, kinds in columns:
            np.multiply(key, kinds, out=key)
            np.add(key, values[part], out=key)
            np.subtract(key, least, out=key)
        return key

    site, first, _ = numbers_by(key_of, even_pieces(len(df)), size)
    return site, df[list(SITE_COLUMNS)].iloc[first].reset_index(drop=True)


def _together(columns: Sequence[_Codes]) -> _Codes:
    """Columns as one, where a key of all their values would not do: combinations that are there are fewer."""
    key: NDArray[np.integer] = np.zeros(len(columns[0].values), np.int64)
    size = 1
    for values, least, kinds in columns:
        if size * kinds >= 1 << 62:
            key, distinct = pd.factorize(key)
            size = len(distinct)
        key = key * kinds + values - least
        size *= kinds
    return _Codes(key, 0, size)


def numbered(key: NDArray[np.integer], size: int) -> tuple[Ints, Ints]:
    """Keys below `size` numbered in order of first appearance; and the row where each first appears."""
    number, first, _ = numbers_by(lambda part: key[part], even_pieces(len(key)), size)
    return number.astype(np.int64), first


class _Codes(NamedTuple):
    """A column's values as numbers, the least that there may be, and how many."""

    values: NDArray[np.integer]
    least: int
    kinds: int


def _codes(column: pd.Series[Any]) -> _Codes:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _Codes(column.cat.codes.to_numpy(), -1, len(column.cat.categories) + 1)
    values = column.to_numpy()
    least = int(values.min()) if len(values) else 0
    return _Codes(values, least, int(values.max(initial=least)) - least + 1)


def launch_groups(launches: pd.DataFrame) -> tuple[OfLaunches[np.int64], pd.DataFrame]:
    """Number the distinct GROUP_COLUMNS of the launches: the numbers, to be asked for by span, and the table
    of groups."""
    number, groups = group_numbers(launches)
    return OfLaunches(launches, number, 0), groups


def group_numbers(launches: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """By launch the number of its group, in order of first appearance; and the table of groups."""
    key = launches[list(GROUP_COLUMNS)].reset_index(drop=True)
    number = np.zeros(len(key), np.int64)
    for name in GROUP_COLUMNS:
        codes, values = pd.factorize(key[name])
        number, _ = pd.factorize(number * max(1, len(values)) + codes)
    _, first = np.unique(number, return_index=True)
    return number, key.iloc[first].reset_index(drop=True)


def group_keys(groups: pd.DataFrame) -> list[tuple[str, int]]:
    """Kernel and variant of each row of a table with GROUP_COLUMNS."""
    return list(zip(*(groups[name].tolist() for name in GROUP_COLUMNS), strict=True))


def self_times(df: pd.DataFrame, column: str) -> Ints:
    """Each row's own time: its duration less that of its synchronous children, int64 of shape (rows,).

    df: spans, or sites with sums of their durations; columns kind, parent and the one that is named.

    0 for async spans: what is in flight takes no time of the warp.
    """
    return own_times(df[column].to_numpy(), df["parent"].to_numpy(), (df["kind"] != "async").to_numpy())


def own_times(duration: Ints, parent: Ints, synchronous: Flags) -> Ints:
    """As `self_times`, of columns."""
    around = np.where((parent >= 0) & synchronous, parent, len(duration))
    if _sum_is_exact(duration):
        inside = np.bincount(around, duration, len(duration) + 1)[:-1].astype(np.int64)
    else:  # five times slower
        inside = np.zeros(len(duration) + 1, np.int64)
        np.add.at(inside, around, duration)
        inside = inside[:-1]
    own: Ints = duration - inside
    own *= synchronous
    return own


def _sum_is_exact(values: Ints) -> bool:
    """Whether float64 has all sums of some of them."""
    most = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return most * len(values) < _EXACT or bool(np.abs(values).sum(dtype=np.float64) < _EXACT)


def scales(tables: Tables) -> OfLaunches[np.float64] | None:
    """For how many CTAs of its launch's grid each recorded one stands, to be asked for by span; None if each
    is for itself. Where the recorded CTAs do not speak for the grid (see `not_samples`), it is 1."""
    scale = launch_scales(tables)
    return OfLaunches(tables.launches, scale, 1.0) if (scale != 1).any() else None


def launch_scales(tables: Tables) -> Floats:
    """By row of the table of launches: for how many CTAs of its grid each recorded one stands, see
    `scales`."""
    alone = tables.launches["kernel"].isin(not_samples(tables.metadata)).to_numpy()
    return np.where(alone, 1.0, grid_scales(tables.launches))


def counted(launches: pd.DataFrame) -> NDArray[np.bool_]:
    """By launch: whether it counts as one. Not where CTAs were to record and none came to its end."""
    return ((launches["ctas"] > 0) | (launches["unfinished"] == 0)).to_numpy()


def ended(launches: pd.DataFrame) -> pd.DataFrame:
    """Those whose times are known: they took some, and all CTAs that were to record came to their end."""
    return launches[(launches["end_ns"] > launches["start_ns"]) & (launches["unfinished"] == 0)]


def grid_ctas(launches: pd.DataFrame) -> Floats:
    """By launch: the CTAs of its grid."""
    sizes = [launches[name].to_numpy(np.float64) for name in ("grid_x", "grid_y", "grid_z", "num_ctas")]
    return np.asarray(np.multiply.reduce(sizes), np.float64)


def grid_scales(launches: pd.DataFrame) -> Floats:
    """By launch: the CTAs of its grid over those that were to record, 1 where either is unknown.

    CTAs that were to record and did not come to their end are no choice, so nothing stands for them.
    """
    chosen = (launches["ctas"] + launches["unfinished"]).to_numpy()
    return np.where(chosen > 0, np.maximum(grid_ctas(launches) / np.maximum(chosen, 1), 1.0), 1.0)


def not_samples(metadata: dict[str, Any]) -> frozenset[str]:
    """The kernels of a profile whose recorded CTAs do not speak for their grids."""
    kernels = metadata.get("kernels") or {}
    recorded = {name: about.get("recorded") or {} for name, about in kernels.items()}
    return frozenset(name for name, about in recorded.items() if not about.get("sample", True))


def covered(begin: Ints, end: Ints) -> float:
    """The length of the union of intervals, in their own unit."""
    begin, end = united(begin, end)
    return float((end - begin).sum())


def united(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of intervals as few that do not touch, in order; those without a length are none."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(begin), np.bool_)
    opens[1:] = begin[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    starts, ends = begin[first], reach[np.append(first[1:], len(begin)) - 1]
    long = ends > starts
    return starts[long], ends[long]
