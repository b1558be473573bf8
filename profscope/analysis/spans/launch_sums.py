"""Sums over the spans of each site in each launch: what a summary of many ranks is made of where their spans
do not fit into memory.

The part of each rank carries its own (docs/records.md). Nothing in it is scaled up to a grid: that is done
where sums are added, with a weight for each launch.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.spans.corrections import record_cost
from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    SITE_COLUMNS,
    Floats,
    Ints,
    OfLaunches,
    grid_ctas,
    grid_scales,
    launch_groups,
    launch_scales,
    narrow_sites,
    not_samples,
    own_times,
)
from profscope.analysis.spans.summing import (
    ENTRY_RECORDS,
    UNITS,
    SummedSpans,
    first_replays,
    one_records_shift,
)
from profscope.schema import Tables, sums_frame

__all__ = ["errors_of_sums", "figures_of_sums", "launch_sums", "rows_of_sums"]

_ADDED: Final = (
    "count", "outermost", "total_ns", "total_cycles", "self_ns", "self_cycles", "root_ns", "root_cycles",
)  # fmt: skip


def launch_sums(tables: Tables, spans: SummedSpans) -> pd.DataFrame:
    """One row for each launch and site with spans in it, in order of launch; the columns of SUM_DTYPES.

    spans: those of the tables.
    """
    df = spans.df
    if not len(df):
        return sums_frame()
    launch = df["launch"].to_numpy()
    key = launch.astype(np.int64) * len(spans.rows) + spans.row
    cell, keys = pd.factorize(key, sort=True)
    number, site = np.divmod(keys, len(spans.rows))
    columns: dict[str, Any] = {name: spans.rows[name].array[site] for name in SITE_COLUMNS}
    columns["launch"] = number
    synchronous = np.asarray(df["kind"].array != "async")
    outermost = (df["depth"].to_numpy() == 0) & synchronous
    parent = df["parent"].to_numpy()
    values = {"count": np.ones(len(df), np.int64), "outermost": outermost}
    for unit, duration in spans.durations._asdict().items():
        took = duration.astype(np.int64)
        values |= {
            f"total_{unit}": took,
            f"self_{unit}": own_times(took, parent, synchronous),
            f"root_{unit}": took * outermost,
        }
        most = np.zeros(len(keys), np.int64)
        np.maximum.at(most, cell, took)
        columns[f"max_{unit}"] = most
    order = np.argsort(cell, kind="stable")
    begins = np.searchsorted(cell[order], np.arange(len(keys)))
    columns |= {name: np.add.reduceat(values[name].astype(np.int64)[order], begins) for name in _ADDED}
    columns["self_squares"] = _squares(tables, df, cell, values[f"self_{tables.unit}"], len(keys))
    return sums_frame(columns)


def _squares(tables: Tables, df: pd.DataFrame, cell: Ints, own: Ints, cells: int) -> Floats:
    """By row of the sums: the squares of each CTA's self time there, added up; 0 if all CTAs recorded."""
    if (grid_scales(tables.launches) == 1).all():
        return np.zeros(cells)
    key, keys = pd.factorize(cell * (int(df["cta"].max()) + 1) + df["cta"].to_numpy())
    took = np.bincount(key, own, len(keys))
    return np.asarray(np.bincount(keys // (int(df["cta"].max()) + 1), took * took, cells), np.float64)


def rows_of_sums(tables: Tables) -> tuple[Ints, pd.DataFrame]:
    """By row of the sums, that of a summary; and these: the columns of configurations and sites."""
    sums = tables.sums
    site, places = narrow_sites(sums)
    group, groups = launch_groups(tables.launches)
    each = max(1, len(groups))
    number, keys = pd.factorize(site.astype(np.int64) * each + group.of(sums["launch"].to_numpy()))
    rows = places.iloc[keys // each].reset_index(drop=True)
    rows.insert(1, "variant", groups["variant"].to_numpy(np.int32)[keys % each])
    return number, rows[[*GROUP_COLUMNS, *SITE_COLUMNS[1:]]]


def figures_of_sums(tables: Tables, row: Ints, rows: int) -> dict[str, Ints]:
    """As `sums_of`, and the longest span of each row: max_ns, max_cycles. row: see `rows_of_sums`."""
    sums, weight = tables.sums, _weights(tables, tables.sums)
    seen = {name: np.bincount(row, sums[name].to_numpy(), rows) for name in _ADDED}
    scaled = {name: np.bincount(row, sums[name].to_numpy() * weight, rows) for name in _ADDED}
    figures = {"count": scaled["count"], "seen": seen["count"], "root": scaled[f"root_{tables.unit}"]}
    for unit in UNITS:
        figures |= {f"{what}_{unit}": scaled[f"{what}_{unit}"] for what in ("total", "self")}
        figures[f"seen_{unit}"] = seen[f"total_{unit}"]
        most = np.zeros(rows, np.int64)
        np.maximum.at(most, row, sums[f"max_{unit}"].to_numpy())
        figures[f"max_{unit}"] = most
    return {name: np.rint(values).astype(np.int64) for name, values in figures.items()}


def errors_of_sums(tables: Tables, place: Ints, places: int) -> Floats:
    """As `standard_errors`; the part that CTAs differ by is at most so large where several sites are of one
    place. place: of each row of the sums, or -1."""
    chosen = place >= 0
    sums = tables.sums[chosen]
    return np.hypot(
        _of_samples(tables, sums, place[chosen], places), _shifts(tables, sums, place[chosen], places)
    )


def _of_samples(tables: Tables, sums: pd.DataFrame, place: Ints, places: int) -> Floats:
    """See `summing.standard_errors`. What one launch, or the replays of a graph, have at one place is taken
    to err in the same direction: its errors are added up, and of several launches their squares."""
    launches = tables.launches
    scale = grid_scales(launches)
    if (scale == 1).all():
        return np.zeros(places)
    launch = OfLaunches(launches, np.arange(len(launches)), 0).of(sums["launch"].to_numpy())
    recorded, grid = launches["ctas"].to_numpy(np.float64)[launch], grid_ctas(launches)[launch]
    told = (recorded > 1) & ~launches["kernel"].isin(not_samples(tables.metadata)).to_numpy()[launch]
    count, own = np.maximum(recorded, 2), sums[f"self_{tables.unit}"].to_numpy(np.float64)
    variance = np.maximum(sums["self_squares"].to_numpy() - own * own / count, 0) / (count - 1)
    added = grid**2 * np.maximum(1 - recorded / np.maximum(grid, 1), 0) * variance / count
    error = np.where(told, np.sqrt(added), np.where(scale[launch] == 1, 0.0, np.nan))
    together, keys = pd.factorize(first_replays(launches)[launch] * places + place)
    of_launch = np.bincount(together, error, len(keys))
    return np.sqrt(np.bincount(keys % places, of_launch**2, places))


def _shifts(tables: Tables, sums: pd.DataFrame, place: Ints, places: int) -> Floats:
    """See `summing.standard_errors`."""
    cost = record_cost(tables.metadata)
    if cost is None:
        return np.zeros(places)
    synchronous = np.asarray(sums["kind"].array != "async")
    records = sums["count"].to_numpy() + ENTRY_RECORDS * sums["outermost"].to_numpy()
    weight = _weights(tables, sums)
    each = one_records_shift(tables, cost, *(float(tables.sums[f"total_{unit}"].sum()) for unit in UNITS))
    return np.asarray(np.bincount(place, records * synchronous * weight, places) * each, np.float64)


def _weights(tables: Tables, sums: pd.DataFrame) -> Floats:
    """By row of the sums, for how many CTAs each recorded one stands."""
    return OfLaunches(tables.launches, launch_scales(tables), 1.0).of(sums["launch"].to_numpy())
