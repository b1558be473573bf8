"""What a summary adds up of single spans: of which row each is, sums by row, and the durations of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.corrections import Durations, are_corrected, narrow_durations
from profscope.analysis.numbering import numbers_by
from profscope.analysis.pieces import each_piece, pieces
from profscope.analysis.span_rows import (
    SITE_COLUMNS,
    Floats,
    Ints,
    Numbers,
    OfLaunches,
    begins_of_runs,
    narrow_sites,
    numbered,
    numbers_of_groups,
    own_times,
)
from profscope.schema import Tables

__all__ = ["UNITS", "SummedSpans", "by_row", "in_order", "summed_spans", "sums_by", "sums_of"]


UNITS = ("ns", "cycles")


class SummedSpans(NamedTuple):
    """df: the spans; durations: those that are added up, as they were read or corrected. row: of each span,
    that of `rows`, of an unsigned dtype as narrow as can be; rows: GROUP_COLUMNS and SITE_COLUMNS, in the
    order of their first spans, which stand at `first`. parts: `pieces` of the spans."""

    df: pd.DataFrame
    durations: Durations
    row: Numbers
    rows: pd.DataFrame
    first: Ints
    parts: list[slice]

    def sites(self, chosen: slice | Ints) -> tuple[Ints, pd.DataFrame]:
        """`sites` of some of the spans, all of one kernel and variant."""
        row = self.row[chosen]
        site, first = numbered(row, len(self.rows))
        return site, self.rows[list(SITE_COLUMNS)].iloc[row[first]].reset_index(drop=True)


def summed_spans(tables: Tables) -> SummedSpans:
    """What a summary adds up, for whoever asks for more of it than the summary."""
    df = tables.df
    if are_corrected(tables):
        durations = narrow_durations(df, tables.metadata)
    else:
        durations = Durations(df["duration_cycles"].to_numpy(), df["duration_ns"].to_numpy())
    site, places = narrow_sites(df)
    group, groups = numbers_of_groups(tables.launches)
    launch, each = df["launch"].to_numpy(), max(1, len(groups))
    parts = pieces(df)

    def key_of(part: slice) -> Ints:
        return site[part].astype(np.int64) * each + group.of(launch[part])

    row, first, key = numbers_by(key_of, parts, max(1, len(places)) * each)
    chosen = groups.iloc[key % each]
    rows = places.iloc[key // each].reset_index(drop=True)
    rows.insert(1, "variant", chosen["variant"].to_numpy(np.int32))
    return SummedSpans(df, durations, row, rows, first, parts)


def sums_of(spans: SummedSpans, scale: OfLaunches[np.float64] | None, unit_of_shares: str) -> dict[str, Ints]:
    """By row of the summary: count; by unit total, self and seen (total_ns, ...); root, the total in
    `unit_of_shares` of outermost spans; and seen, how many spans there are.

    scale: what each span stands for, None for itself; seen, seen_ns and seen_cycles are never scaled.
    """
    df = spans.df
    kind, depth = df["kind"].array, df["depth"].to_numpy()
    parents, launch = df["parent"].to_numpy(), df["launch"].to_numpy()
    durations = spans.durations._asdict()

    def values(part: slice) -> dict[str, Ints | Floats]:
        weight = np.ones(part.stop - part.start, np.int64) if scale is None else scale.of(launch[part])
        synchronous = np.asarray(kind[part] != "async")
        parent = np.where(parents[part] < 0, -1, parents[part] - part.start)
        found: dict[str, Ints | Floats] = {"count": weight}
        for unit, duration in durations.items():
            took = duration[part].astype(np.int64)
            found[f"total_{unit}"] = took * weight
            found[f"self_{unit}"] = own_times(took, parent, synchronous) * weight
            if scale is not None:
                found[f"seen_{unit}"] = took
        if scale is not None:
            found["seen"] = np.ones(len(weight), np.int64)
        found["root"] = found[f"total_{unit_of_shares}"] * ((depth[part] == 0) & synchronous)
        return found

    sums = sums_by(spans.row, len(spans.rows), spans.parts, values)
    if scale is None:
        sums |= {"seen": sums["count"]} | {f"seen_{unit}": sums[f"total_{unit}"] for unit in UNITS}
    return sums


def sums_by(
    number: Numbers, count: int, parts: list[slice], values: Callable[[slice], dict[str, Ints | Floats]]
) -> dict[str, Ints]:
    """Sums of values by the number of each span, of so many: exact, or, of floats, rounded; int64 of shape
    (count,). values: those of the spans of a piece, by name."""

    def of_piece(part: slice) -> tuple[Ints, dict[str, Ints | Floats]]:
        order, there, begins = in_order(number[part])
        return there, {name: np.add.reduceat(each[order], begins) for name, each in values(part).items()}

    sums: dict[str, Ints | Floats] = {}
    for there, of_part in each_piece(of_piece, parts):
        for name, each in of_part.items():
            if name not in sums:
                none: NDArray[Any] = np.zeros(count, each.dtype)
                sums[name] = none
            sums[name][there] += each
    return {name: np.rint(each).astype(np.int64) for name, each in sums.items()}


def by_row(spans: SummedSpans, counts: Ints) -> dict[str, list[NDArray[np.integer]]]:
    """The durations of each unit, by row of the summary. counts: how many a row has, one at least."""
    values = spans.durations
    together = [np.empty(len(each), _narrowest(each)) for each in values]
    ends = np.cumsum(counts)
    # Where the values of each piece go: behind those of the pieces before.
    places, free = [], ends - counts
    for part in spans.parts:
        seen = np.bincount(spans.row[part], minlength=len(counts))
        there = np.flatnonzero(seen)
        places.append((part, free[there]))
        free[there] += seen[there]

    def put(piece: tuple[slice, Ints]) -> None:
        part, place = piece
        order, _, begins = in_order(spans.row[part])
        to = np.arange(len(order)) + np.repeat(place - begins, np.diff(begins, append=len(order)))
        for each, ordered in zip(values, together, strict=True):
            ordered[to] = each[part][order]

    each_piece(put, places)
    parts = [np.split(each, ends[:-1]) if len(ends) else [] for each in together]
    return dict(zip(Durations._fields, parts, strict=True))


def _narrowest(values: NDArray[np.integer[Any]]) -> np.dtype[Any]:
    """A dtype that holds them: durations of four seconds need 32 bits, and are sorted twice as fast then."""
    if values.dtype == np.uint32:
        return values.dtype
    fits = not len(values) or (values.min() >= 0 and values.max() <= np.iinfo(np.uint32).max)
    return np.dtype(np.uint32) if fits else values.dtype


def in_order(number: Numbers) -> tuple[Ints, Ints, Ints]:
    """Spans in the order of their numbers, which numbers these are, and where each begins among them."""
    order = np.argsort(number, kind="stable")  # numpy's is a radix sort for keys of 16 bits
    ordered = number[order]
    begins = begins_of_runs(ordered)
    return order, ordered[begins].astype(np.int64), begins
