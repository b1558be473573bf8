"""When the CTAs of launches ran and on which SM, how long launches took, and how they filled the device.

Every view asks here, so that tails, waves, idle SMs and launch times are the same in all of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.rows import (
    Floats,
    Ints,
    ended,
    grid_ctas,
    launch_groups,
    outermost,
)
from profscope.schema import Tables

__all__ = [
    "Shape",
    "beside_bare_ones",
    "busiest_sms",
    "ctas_of",
    "ctas_of_spans",
    "ctas_with_spans",
    "every_cta",
    "knows_ends",
    "knows_sms",
    "launch_durations",
    "longest_first",
    "recorded_counts",
    "shape_of",
    "sms_a_launch",
]

_COLUMNS = ["launch", "cta", "sm", "start_ns", "end_ns", "start_cycle", "cycles"]
_WARP = ["launch", "cta", "warp"]
_FEWEST_SMS: Final = 32
"""If they are fewer, and no more than half, chance decides which of uneven CTAs are seen."""
_LONGER: Final = 1.5
"""The records of others on its SM make no bare CTA take so many times as long."""


def every_cta(tables: Tables, launches: pd.DataFrame) -> pd.DataFrame | None:
    """`ctas_of` some launches of the tables; None if a CTA of one of their grids is not known."""
    ctas = ctas_of(tables)
    ctas = ctas[ctas["launch"].isin(launches["launch"])]
    known = launches["launch"].map(ctas["launch"].value_counts()).fillna(0).to_numpy()
    return ctas if (known >= np.maximum(grid_ctas(launches), 1)).all() else None


def knows_sms(tables: Tables) -> bool:
    """Whether it is known of any CTA where it ran: not in traces of tools that see kernels from outside."""
    return len(tables.ctas) > 0 or int(tables.df["sm"].to_numpy().max(initial=-1)) >= 0


def knows_ends(tables: Tables, launches: pd.DataFrame) -> bool:
    """Whether when the first and the last CTA of the grids of some launches ran is known. GPUs start CTAs in
    the order of their ids, so the launch ends with the last one, or little later."""
    ctas = ctas_of(tables)
    ends = pd.Series(grid_ctas(launches) - 1, launches["launch"].to_numpy())
    last = ctas["launch"].map(ends)
    found = [ctas["launch"][ctas["cta"] == end].nunique() for end in (0, last)]
    return all(count == len(ends) for count in found)


def ctas_of(tables: Tables) -> pd.DataFrame:
    """launch, cta, sm, start_ns, end_ns, start_cycle and cycles of each known CTA, in order of launch.

    Those of `tables.ctas`; without such a table, as in another tool's trace, those of the spans.
    """
    if len(tables.ctas):
        return tables.ctas.rename(columns={"duration_cycles": "cycles"})[_COLUMNS]
    return ctas_of_spans(tables.df, np.array([0]), np.array([len(tables.df)]))[0]


def ctas_with_spans(tables: Tables) -> pd.DataFrame:
    """kernel, variant, launch, cta, sm, ns and cycles of each CTA whose spans are there: how long it took as
    read, in order of launch."""
    ctas = ctas_of_spans(tables.df, np.array([0]), np.array([len(tables.df)]))[0]
    ctas = ctas[ctas["cta"] >= 0].assign(ns=ctas["end_ns"] - ctas["start_ns"])
    launches = tables.launches.drop_duplicates("launch").set_index("launch")[["kernel", "variant"]]
    return ctas.join(launches, on="launch")


def ctas_of_spans(df: pd.DataFrame, begins: Ints, counts: Ints) -> tuple[pd.DataFrame, Ints]:
    """The CTAs of ranges of rows of the span table, in their order; and the first row of each."""
    depth = df["depth"].to_numpy()
    rows = np.concatenate(
        [b + np.flatnonzero(depth[b : b + n] == 0) for b, n in zip(begins, counts, strict=True)]
    )
    rows = rows[np.asarray(df["kind"].array[rows] != "async")]
    launch, cta = df["launch"].to_numpy()[rows], df["cta"].to_numpy()[rows]
    change = np.ones(len(rows), np.bool_)
    change[1:] = (launch[1:] != launch[:-1]) | (cta[1:] != cta[:-1])
    at = np.flatnonzero(change)
    start, cycle = df["start_ns"].to_numpy()[rows], df["start_cycle"].to_numpy()[rows]
    end = start + df["duration_ns"].to_numpy()[rows]
    if not len(at):
        return pd.DataFrame({name: np.zeros(0, np.int64) for name in _COLUMNS}), at
    start_cycle = np.minimum.reduceat(cycle, at)
    table = pd.DataFrame(
        {
            "launch": launch[at],
            "cta": cta[at],
            "sm": df["sm"].to_numpy()[rows[at]],
            "start_ns": np.minimum.reduceat(start, at),
            "end_ns": np.maximum.reduceat(end, at),
            "start_cycle": start_cycle,
            "cycles": np.maximum.reduceat(cycle + df["duration_cycles"].to_numpy()[rows], at) - start_cycle,
        }
    )
    return table, rows[at]


def beside_bare_ones(tables: Tables, ctas: pd.DataFrame) -> pd.Series[bool]:
    """Which CTAs of `ctas_of` ran on an SM that ran one with records, where other SMs of the launch ran only
    bare ones: records take time, so that such an SM ends later than it would. None where the others cannot
    stand for all: they are on few SMs, or a bare CTA among these takes far longer than any of them."""
    none = pd.Series(False, ctas.index)
    if not len(tables.ctas):
        return none
    is_recorded = tables.ctas["recorded"].astype("bool")[ctas.index]
    on_sm = is_recorded.groupby([ctas["launch"], ctas["sm"]]).transform("any")
    beside = on_sm & ~on_sm.groupby(ctas["launch"]).transform("all")
    longest, longest_of_others = ctas["cycles"][beside & ~is_recorded].max(), ctas["cycles"][~beside].max()
    are_few = sms_a_launch(ctas[~beside]) < min(_FEWEST_SMS, sms_a_launch(ctas) / 2 + 1)
    return none if are_few or longest > _LONGER * longest_of_others else beside


def sms_a_launch(ctas: pd.DataFrame) -> float:
    """How many SMs run CTAs of a launch, the mean of those with some."""
    return len(ctas[["launch", "sm"]].drop_duplicates()) / ctas["launch"].nunique()


@asked_once
def launch_durations(tables: Tables) -> pd.Series:
    """By index of the table of launches, from first record to last, as they were read, in the tables' unit:
    float64, missing (NaN) for those whose times are not known (`ended`).

    On the emulator cycles are those of the SM that was busy longest, which are exact; where there are no
    spans, and on a GPU, they are ns times the launch's clock, 0 if unknown.
    """
    launches = tables.launches
    ns = (launches["end_ns"] - launches["start_ns"]).astype("float64")
    ns = ns.where(launches.index.isin(ended(launches).index))
    if tables.unit == "ns":
        return ns
    cycles = ns * launches["clock_ghz"].fillna(0.0)
    if not tables.emulated:
        return cycles
    counted = launches["launch"].map(busiest_sms(tables))
    return counted.where(counted.notna() & ns.notna(), cycles)


def longest_first(tables: Tables, launches: pd.DataFrame) -> pd.Series[float]:
    """By kernel and variant, how long some of the tables' launches took together in their unit, the longest
    first."""
    lasted = launch_durations(tables)[launches.index]
    times = lasted.groupby([launches["kernel"], launches["variant"]], sort=False).sum()
    return times.sort_values(ascending=False, kind="stable")


def busiest_sms(tables: Tables) -> pd.Series[float]:
    """By launch, the cycles of the SM that was busy longest: all of it, where all begin at
    once, as on the emulator."""
    ctas = ctas_of(tables)
    ctas = ctas.assign(end=ctas["start_cycle"] + ctas["cycles"])
    of_sm = ctas.groupby(["launch", "sm"]).agg(start=("start_cycle", "min"), end=("end", "max"))
    return (of_sm["end"] - of_sm["start"]).groupby("launch").max().astype("float64")


ALIKE = 0.05
"""CTAs are alike if the standard deviation of their cycles is less than this part of the mean."""


class Shape(NamedTuple):
    """Medians over launches. ctas: of a launch; sms: how many of them ran one; waves: ctas over the CTAs that
    fit on the device at once; imbalance_pct and tail_pct: see `shape_of`."""

    ctas: int
    sms: int
    waves: float
    imbalance_pct: float
    tail_pct: float


class _Filled(NamedTuple):
    """What launches took, in ns, of shape (launches,). mean: of their CTAs; last: from the begin of the last
    CTA to the end; of_sms: how long SMs ran any CTA in that time, added up; of_ctas: that of CTAs;
    fullest: the mean of CTAs on the SMs that ran most of them."""

    ctas: Ints
    variation: Floats
    mean: Floats
    whole: Ints
    last: Ints
    of_ctas: Ints
    of_sms: Ints
    fullest: Floats


def shape_of(ctas: pd.DataFrame, sm_count: int, room: int = 0) -> Shape:
    """The shape of launches all of whose CTAs were recorded. room: CTAs that fit on an SM, 0 if unknown: then
    as many as an SM ran at once.

    A launch takes T, from its first CTA's begin to its last one's end. If all CTAs took the mean,
    ceil(waves) of them in turn would take E. imbalance_pct is what T exceeds E by, in percent of T; 0 where
    the CTAs are `ALIKE`. From the begin of the last CTA on no CTA waits for a slot: the time from there to
    the end in which slots are empty, over slots times T, less imbalance_pct, is tail_pct; at most what the
    last wave lacks, 1 - waves / ceil(waves).

    Where all CTAs fit on the device at once, more slots would bring nothing: then tail_pct is about SMs, each
    a slot that is empty when it runs no CTA, and as many waves of SMs as it takes. CTAs that share an SM may
    take longer for that, which is no imbalance: E is then of CTAs on the SMs that ran most.

    Where the grids of launches differ, the shape is that of launches with one number of CTAs: together they
    took longest. A median over all of them would be that of no launch at all.
    """
    sms = max(sm_count, ctas["sm"].nunique())
    slots = (room or _most_at_once(ctas)) * sms
    count, ran, imbalance, tail = np.median(_figures(_of_one_grid(ctas), slots, sms, room), axis=1).tolist()
    return Shape(int(count), int(ran), count / slots, imbalance, tail)


def _figures(ctas: pd.DataFrame, slots: int, sms: int, room: int) -> Floats:
    """By launch its CTAs, the SMs that ran one, imbalance_pct and tail_pct, shape (4, launches)."""
    launch, _ = pd.factorize(ctas["launch"])
    order = np.lexsort((ctas["sm"].to_numpy(), launch))
    launch = launch[order]
    start, end, cycles, sm = (ctas[name].to_numpy()[order] for name in ("start_ns", "end_ns", "cycles", "sm"))
    length = end - start
    first = np.flatnonzero(np.diff(launch, prepend=-1))
    first_on_sm = np.flatnonzero((np.diff(launch, prepend=-1) != 0) | (np.diff(sm, prepend=-1) != 0))
    sm_of_launch = np.searchsorted(first_on_sm, first)  # the first SM of each launch
    count = np.diff(first, append=len(launch))
    on_sm = np.diff(first_on_sm, append=len(launch))
    last, stop = np.maximum.reduceat(start, first), np.maximum.reduceat(end, first)
    begun_last = last[launch]
    behind = np.maximum(end - np.maximum(start, begun_last), 0)
    of_sm = np.maximum(np.maximum.reduceat(end, first_on_sm) - begun_last[first_on_sm], 0)
    most = np.maximum.reduceat(on_sm, sm_of_launch)[launch[first_on_sm]]
    full = np.repeat(on_sm == most, on_sm)
    mean_cycles = np.add.reduceat(cycles, first) / count
    deviation = np.sqrt(np.add.reduceat((cycles - mean_cycles[launch]) ** 2, first) / count)
    filled = _Filled(
        count,
        deviation / np.maximum(1.0, mean_cycles),
        np.add.reduceat(length, first) / count,
        np.maximum(1, stop - np.minimum.reduceat(start, first)),
        stop - last,
        np.add.reduceat(behind, first),
        np.add.reduceat(of_sm, sm_of_launch),
        np.add.reduceat(length * full, first) / np.add.reduceat(full.astype(np.int64), first),
    )
    ran = np.diff(sm_of_launch, append=len(first_on_sm))
    return np.array([count, ran, *_lost(filled, slots, sms, room)], np.float64)


def _lost(filled: _Filled, slots: int, sms: int, room: int) -> tuple[Floats, Floats]:
    """imbalance_pct and tail_pct by launch."""
    waves = filled.ctas / slots
    shares = (waves <= 1) & bool(room)  # all CTAs fit on the device at once
    mean, busy = (
        np.where(shares, filled.fullest, filled.mean),
        np.where(shares, filled.of_sms, filled.of_ctas),
    )
    empty = np.where(shares, sms, slots)
    waves, turns = np.where(shares, filled.ctas / sms, waves), np.where(shares, 1.0, waves)
    imbalance = np.maximum(0.0, 1 - np.ceil(turns) * mean / filled.whole)
    imbalance[filled.variation < ALIKE] = 0.0
    tail = np.maximum(0.0, (empty * filled.last - busy) / (empty * filled.whole) - imbalance)
    return 100 * imbalance, 100 * np.minimum(tail, 1 - waves / np.ceil(waves))


def _of_one_grid(ctas: pd.DataFrame) -> pd.DataFrame:
    """The CTAs of those launches that have one number of them, and together took longest."""
    if ctas["launch"].value_counts().nunique() < 2:
        return ctas
    launches = ctas.groupby("launch", sort=False).agg(
        count=("sm", "size"), start=("start_ns", "min"), end=("end_ns", "max")
    )
    took = (launches["end"] - launches["start"]).groupby(launches["count"]).sum()
    alike = launches.index[launches["count"] == took.iloc[::-1].idxmax()]  # of several the most CTAs
    return ctas[ctas["launch"].isin(alike)]


def _most_at_once(ctas: pd.DataFrame) -> int:
    """The most CTAs of a launch that an SM ran at once."""
    launch, _ = pd.factorize(ctas["launch"])
    sm = launch.astype(np.int64) * (1 << 20) + ctas["sm"].to_numpy()
    # A CTA's last records may be a little late, so that it seems to overlap the next one.
    start, cycles = ctas["start_cycle"].to_numpy(), ctas["cycles"].to_numpy()
    end = start + cycles - cycles // 50
    change = np.repeat([1, -1], len(ctas))
    order = np.lexsort((change, np.concatenate([start, end]), np.tile(sm, 2)))
    return int(np.cumsum(change[order]).max(initial=1))


def recorded_counts(tables: Tables) -> pd.DataFrame:
    """By GROUP_COLUMNS, how many launches, ctas and warps there are figures of."""
    roots = tables.df[_WARP].iloc[outermost(tables.df)]
    number, groups = launch_groups(tables.launches)
    warps = roots.assign(group=number.of(roots["launch"].to_numpy())).drop_duplicates()
    ctas = warps.drop_duplicates(["launch", "cta"])
    parts = {"launches": ctas.drop_duplicates("launch"), "ctas": ctas, "warps": warps}
    counts = {name: np.bincount(rows["group"], minlength=len(groups)) for name, rows in parts.items()}
    return groups.assign(**counts)
