"""The standard error of self times that are estimated from some CTAs of each launch."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profscope.analysis.pieces import each_piece
from profscope.analysis.span_rows import (
    Flags,
    Floats,
    Ints,
    OfLaunches,
    grid_ctas,
    grid_scales,
    not_samples,
    own_times,
)
from profscope.analysis.summing import SummedSpans
from profscope.schema import Tables

__all__ = ["error_pct", "standard_errors"]


def error_pct(errors: Floats, self_time: Floats) -> Floats:
    """Standard errors in percent of the times that they are of; 0 where there is none, whatever the time."""
    share = np.divide(100 * errors, self_time, out=np.full(len(errors), np.nan), where=self_time > 0)
    return np.where(errors == 0, 0.0, share)


def standard_errors(tables: Tables, spans: SummedSpans, place: Ints, places: int) -> Floats:
    """Of the self time in the tables' unit, by place. place: of each row of the summary, of so many, or -1.

    A launch that recorded n of N CTAs adds N^2 (1 - n/N) s^2 / n to the variance, s^2 being that of a CTA's
    self time (W. G. Cochran, "Sampling Techniques", 1977, equation 2.8). Launches are independent: other CTAs
    record in each. Replays of a CUDA graph are not, and count as one long launch. 0 where all CTAs recorded;
    NaN where one CTA of a launch did, or those of a list.
    """
    launches = tables.launches
    scale = grid_scales(launches)
    if (scale == 1).all():
        return np.zeros(places)
    launch, at, took = _cells(tables, spans, place, scale != 1)
    recorded = launches["ctas"].to_numpy(np.float64)
    told = (recorded > 1) & ~launches["kernel"].isin(not_samples(tables.metadata)).to_numpy()
    grid = np.maximum(grid_ctas(launches), 1)
    # By launch and place, over the CTAs that recorded: those without a span there took 0.
    key = launch * places + at
    keys, number = np.unique(key, return_inverse=True)
    of, where = keys // places, keys % places
    total, squares = (np.bincount(number, values, len(keys)) for values in (took, took * took))
    count = np.maximum(recorded[of], 2)
    variance = np.maximum(squares - total * total / count, 0) / (count - 1)
    added = grid[of] ** 2 * (1 - recorded[of] / grid[of]) * variance / count
    return np.asarray(np.sqrt(np.bincount(where, np.where(told[of], added, np.nan), places)), np.float64)


def _first_replays(launches: pd.DataFrame) -> Ints:
    """By row of the table of launches, that of the launch in the graph's first replay; its own where no graph
    replayed it. The same CTAs record in all replays."""
    rows = np.arange(len(launches))
    of_graph = (launches["graph"] >= 0).to_numpy()
    if not of_graph.any():
        return rows
    replays = launches.assign(row=rows)[of_graph]
    position = replays.groupby(["rank", "graph", "replay"]).cumcount().rename("position")
    rows[of_graph] = replays.groupby(["rank", "graph", position])["row"].transform("min")
    return rows


def _cells(tables: Tables, spans: SummedSpans, place: Ints, sampled: Flags) -> tuple[Ints, Ints, Floats]:
    """Of each place of each CTA of the sampled launches: row of the table of launches (of replays that of the
    first), place, self time."""
    df = spans.df
    number = OfLaunches(tables.launches, np.where(sampled, _first_replays(tables.launches), -1), -1)
    duration = getattr(spans.durations, tables.unit)
    columns = [df[name].to_numpy() for name in ("launch", "cta", "parent")]

    def of_piece(part: slice) -> tuple[Ints, Ints, Ints, Floats]:
        launch, cta, parents = (column[part] for column in columns)
        parent = np.where(parents < 0, -1, parents - part.start)
        own = own_times(
            duration[part].astype(np.int64), parent, np.asarray(df["kind"].array[part] != "async")
        )
        row, at = number.of(launch), place[spans.row[part]]
        chosen = np.flatnonzero((row >= 0) & (at >= 0) & (own != 0))
        return row[chosen], cta[chosen].astype(np.int64), at[chosen], own[chosen].astype(np.float64)

    found = each_piece(of_piece, spans.parts)
    launch, cta, at, took = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((at, cta, launch))
    launch, cta, at = launch[order], cta[order], at[order]
    first = np.flatnonzero(
        np.logical_or.reduce([np.diff(values, prepend=-1) != 0 for values in (launch, cta, at)])
    )
    if not len(first):
        return launch, at, took
    return launch[first], at[first], np.add.reduceat(took[order], first)
