"""The sums behind a summary: each span's row, sums by row, durations, and standard errors.

A standard error is that of a self time estimated from some CTAs of each launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.corrections import (
    Cost,
    Durations,
    are_corrected,
    narrow_durations,
    record_cost,
)
from profscope.analysis.spans.pieces import each_piece, numbers_by, pieces
from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    SITE_COLUMNS,
    Flags,
    Floats,
    Ints,
    Numbers,
    OfLaunches,
    begins_of_runs,
    grid_ctas,
    grid_scales,
    launch_groups,
    launch_scales,
    narrow_sites,
    not_samples,
    numbered,
    own_times,
)
from profscope.schema import Tables

__all__ = [
    "ENTRY_RECORDS",
    "UNITS",
    "CtaCells",
    "SummedSpans",
    "by_row",
    "cta_cells",
    "error_pct",
    "first_replays",
    "in_order",
    "one_records_shift",
    "share_errors",
    "standard_errors",
    "summed_spans",
    "sums_by",
    "sums_of",
]

UNITS = ("ns", "cycles")

ENTRY_RECORDS: Final = 5
"""Records that a warp's entry costs at most: it is a chain of some 30 instructions (`lowering.prologue`), 69
cycles where Triton 3.6 compiled it and 22 with 3.7, of 14 a record."""


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
        return site, self.rows.iloc[row[first]][list(SITE_COLUMNS)].reset_index(drop=True)


@asked_once
def summed_spans(tables: Tables) -> SummedSpans:
    """The sums of a summary, for callers that need more than the summary."""
    df = tables.df
    if are_corrected(tables):
        durations = narrow_durations(df, tables.metadata)
    else:
        durations = Durations(df["duration_cycles"].to_numpy(), df["duration_ns"].to_numpy())
    site, places = narrow_sites(df)
    group, groups = launch_groups(tables.launches)
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


def error_pct(errors: Floats, self_time: Floats) -> Floats:
    """Standard errors in percent of the times that they are of; 0 where there is none, whatever the time."""
    share = np.divide(100 * errors, self_time, out=np.full(len(errors), np.nan), where=self_time > 0)
    return np.where(errors == 0, 0.0, share)


def standard_errors(tables: Tables, spans: SummedSpans, place: Ints, places: int) -> Floats:
    """Of the self time in the tables' unit, by place. place: of each row of the summary, of so many, or -1.

    It has two parts: CTAs differ, and only some may have recorded; and records shift the times of all. NaN
    where one CTA of a launch recorded, or those of a list.
    """
    sampled = _of_samples(tables, place, places)
    return np.asarray(np.hypot(sampled, _shifts(tables, spans, place, places)), np.float64)


def _of_samples(tables: Tables, place: Ints, places: int) -> Floats:
    """The part that CTAs differ by; 0 where all recorded.

    A launch that recorded n of N CTAs adds N^2 (1 - n/N) s^2 / n to the variance, s^2 being that of a CTA's
    self time (W. G. Cochran, "Sampling Techniques", 1977, equation 2.8). Launches are independent: other CTAs
    record in each. Replays of a CUDA graph are not, and count as one long launch.
    """
    launches = tables.launches
    if (grid_scales(launches) == 1).all():
        return np.zeros(places)
    cells = cta_cells(tables)
    there = np.flatnonzero(place[cells.row] >= 0)
    of_ctas, first, cell = np.unique(
        cells.cta[there] * places + place[cells.row[there]], return_index=True, return_inverse=True
    )
    took = np.bincount(cell, cells.took[there], len(of_ctas))
    launch, at = cells.launch[there[first]], of_ctas % places
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


def _shifts(tables: Tables, spans: SummedSpans, place: Ints, places: int) -> Floats:
    """By place the standard deviation of how far records have shifted its self time, in the tables' unit.

    What a record costs is known where nothing hides it. It may hide in a wait, or lengthen one beside it, so
    each span may be off by a record: two reads and the store of a row. A warp's first instructions, which
    find where its records go, are in no correction: they count as ENTRY_RECORDS records more of the outermost
    span. Any shift up to that is as likely (a uniform distribution), and it is the same in all spans of a
    place, however many there are. 0 if the cost of a record is unknown.
    """
    cost = record_cost(tables.metadata)
    if cost is None:
        return np.zeros(places)
    df = spans.df
    scale = OfLaunches(tables.launches, launch_scales(tables), 1.0)
    columns = df["launch"].to_numpy(), df["depth"].to_numpy(), df["kind"].array

    def of_piece(part: slice) -> Floats:
        launch, depth, kind = (column[part] for column in columns)
        records = np.where(depth == 0, 1.0 + ENTRY_RECORDS, 1.0) * np.asarray(kind != "async")
        at = place[spans.row[part]]
        chosen = at >= 0
        of_places = np.bincount(at[chosen], (records * scale.of(launch))[chosen], places)
        return of_places.astype(np.float64)

    records = sum(each_piece(of_piece, spans.parts), np.zeros(places))
    ns, cycles = (
        float(values.sum(dtype=np.float64)) for values in (spans.durations.ns, spans.durations.cycles)
    )
    return records * one_records_shift(tables, cost, ns, cycles)


def one_records_shift(tables: Tables, cost: Cost, ns: float, cycles: float) -> float:
    """The standard deviation of how far one record shifts a time, in the tables' unit. ns, cycles: how long
    all spans are."""
    each = (2 * cost.read + cost.row) / math.sqrt(12)
    if tables.unit == "ns":
        each *= ns / cycles if cycles else 0.0
    return each


def first_replays(launches: pd.DataFrame) -> Ints:
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


class CtaCells(NamedTuple):
    """The self time of each row of a summary in each CTA of launches that recorded only some, in order of
    launch, CTA and row. launch: the row in the table of launches, of replays that of the first; cta: numbered
    from 0; row: as in `SummedSpans.rows`; took: in the tables' unit, not 0."""

    launch: Ints
    cta: Ints
    row: Ints
    took: Floats


@asked_once
def cta_cells(tables: Tables) -> CtaCells:
    df, spans = tables.df, summed_spans(tables)
    sampled = np.where(grid_scales(tables.launches) != 1, first_replays(tables.launches), -1)
    number = OfLaunches(tables.launches, sampled, -1)
    duration = getattr(spans.durations, tables.unit)
    columns = [df[name].to_numpy() for name in ("launch", "cta", "parent")]
    kind, rows = df["kind"].array, max(1, len(spans.rows))

    def of_piece(part: slice) -> tuple[Ints, Ints, Ints, Floats]:
        launch, cta, parents = (column[part] for column in columns)
        launch = number.of(launch)
        parent = np.where(parents < 0, -1, parents - part.start)
        own = own_times(duration[part].astype(np.int64), parent, np.asarray(kind[part] != "async"))
        at = np.flatnonzero((launch >= 0) & (own != 0))
        launch, cta, row = launch[at], cta[at].astype(np.int64), spans.row[part][at].astype(np.int64)
        begins = _changes(launch, cta)
        cell, cells = pd.factorize((np.cumsum(begins) - 1) * rows + row)
        first = np.flatnonzero(begins)[cells // rows]
        of_cells: Floats = np.bincount(cell, own[at].astype(np.float64), len(cells)).astype(np.float64)
        return launch[first], cta[first], (cells % rows).astype(np.int64), of_cells

    found = each_piece(of_piece, spans.parts)
    launch, cta, row, took = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((row, cta, launch))
    launch, cta, row = launch[order], cta[order], row[order]
    of_cta = _changes(launch, cta)
    first = np.flatnonzero(of_cta | _changes(row))
    summed = np.add.reduceat(took[order], first) if len(first) else took
    return CtaCells(launch[first], (np.cumsum(of_cta) - 1)[first], row[first], summed)


def _changes(*columns: Ints) -> Flags:
    """Where a value of any column differs from the one before it."""
    return np.asarray(
        np.logical_or.reduce([np.diff(values, prepend=-1) != 0 for values in columns]), np.bool_
    )


_TOP: Final = 0.1
"""Of a configuration's warp time: what has less of it is no top row."""


def share_errors(tables: Tables) -> dict[tuple[str, int], float]:
    """By kernel and variant, the largest standard error of its top rows' shares of the time of its warps, as
    a part of the share. None is known of those without an entry: all CTAs recorded, those of a list, or one.
    """
    launches = tables.launches
    scale = grid_scales(launches)
    told = (scale != 1) & ~launches["kernel"].isin(not_samples(tables.metadata)).to_numpy()
    if not told.any():
        return {}
    every = cta_cells(tables)
    cells = CtaCells(*(column[told[every.launch]] for column in every))
    rows = summed_spans(tables).rows[list(GROUP_COLUMNS)]
    group = rows.groupby(list(GROUP_COLUMNS), sort=False, observed=True).ngroup().to_numpy()
    first = np.flatnonzero(_changes(cells.cta))
    recorded = np.bincount(cells.launch[first], minlength=len(launches))
    grid = grid_ctas(launches)
    own = np.bincount(cells.row, cells.took * (grid / np.maximum(recorded, 1))[cells.launch], len(rows))
    share = own / np.maximum(np.bincount(group, own)[group], 1)
    top = np.flatnonzero(share >= _TOP)
    ctas = pd.DataFrame(
        {
            "cta": cells.cta[first],
            "launch": cells.launch[first],
            "group": group[cells.row[first]],
            "time": np.bincount(cells.cta, cells.took)[cells.cta[first]],
        }
    )
    each = ctas.merge(pd.DataFrame({"group": group[top], "row": top, "share": share[top]}), on="group")
    taken = pd.DataFrame({"cta": cells.cta, "row": cells.row, "took": cells.took})
    each = each.merge(taken, on=["cta", "row"], how="left")
    each["rest"] = each["took"].fillna(0.0) - each["share"] * each["time"]
    spread = each.groupby(["row", "launch"])["rest"].var().reset_index()
    size, of = recorded[spread["launch"]], grid[spread["launch"]]
    added = of**2 * np.maximum(1 - size / of, 0) * spread["rest"].to_numpy() / size
    error = np.sqrt(np.bincount(spread["row"], added, len(rows)))[top] / own[top]
    worst: dict[tuple[str, int], float] = {}
    for at, one in zip(top.tolist(), error.tolist(), strict=True):
        key = str(rows["kernel"].iloc[at]), int(rows["variant"].iloc[at])
        worst[key] = float(np.maximum(worst.get(key, 0.0), one))  # NaN stays
    return {key: one for key, one in worst.items() if np.isfinite(one)}
