"""The CTAs and the spans of the page's timeline, as columns that pack well.

Every CTA is a bar, whatever the size of the profile; the spans inside are kept of so many CTAs as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.op_labels import stages_of
from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    Floats,
    Ints,
    OfLaunches,
    launch_groups,
    numbered,
    sites,
)
from profscope.schema import Tables
from profscope.traces.tracks import interval_slots, run_starts

__all__ = [
    "MOST_SPANS",
    "Ctas",
    "Sites",
    "chosen_ctas",
    "ctas_of",
    "kept_launches",
    "known_sites",
    "span_columns",
    "times",
]


def times(tables: Tables) -> tuple[Ints, Ints]:
    """By span, when it began after its launch did, and how long it took: ns, or cycles on the emulator.

    Each SM of the emulator counts from a number of its own, so there the first ns of a launch on an SM places
    its cycles.
    """
    df, launches = tables.df, tables.launches
    launch = df["launch"].to_numpy()
    since: Ints = df["start_ns"].to_numpy() - OfLaunches(launches, launches["start_ns"].to_numpy(), 0).of(
        launch
    )
    if not tables.emulated:
        return since, df["duration_ns"].to_numpy()
    ghz = OfLaunches(launches, launches["clock_ghz"].fillna(1.0).to_numpy(), 1.0).of(launch)
    key, _ = pd.factorize(launch.astype(np.int64) * (1 << 20) + df["sm"].to_numpy())
    cycle = df["start_cycle"].to_numpy()
    anchor = np.unique(key, return_index=True)[1]
    placed: Ints = np.rint(since[anchor] * ghz[anchor]).astype(np.int64)[key] + cycle - cycle[anchor][key]
    return placed, df["duration_cycles"].to_numpy()


def span_columns(
    tables: Tables, ctas: Ctas, chosen: Ints, site: Ints, start: Ints, duration: Ints
) -> dict[str, NDArray[Any]]:
    """The columns of the spans of the chosen CTAs.

    cta_spans: by chosen CTA how many. warp, warp_spans: by run of spans of a warp, its number and how many;
    and by span: site; depth; begin, since the span before it in its run began (its launch, for the first);
    duration; iteration; of those in flight issue, how many rows back the span stands that started them, and
    wait, how many rows from there on that which ended them (0: not known).
    """
    rows = _rows(ctas, chosen)
    df = tables.df.iloc[rows]
    runs = run_starts(df)
    new = np.zeros(len(rows), np.bool_)
    new[runs] = True
    begin = start[rows]
    since = np.diff(begin, prepend=0)
    since[new] = begin[new]
    place = np.full(len(tables.df) + 1, -1, np.int64)  # the last is where -1 looks
    place[rows] = np.arange(len(rows))
    flights = (df["kind"] == "async").to_numpy()
    own = np.arange(len(rows))
    issue, wait = place[df["parent"].to_numpy()], place[df["wait"].to_numpy()]
    counts = np.minimum(ctas.rows[chosen], MOST_SPANS)
    return {
        "cta_spans": counts,
        "warp": df["warp"].to_numpy()[runs],
        "warp_spans": np.diff(runs, append=len(rows)),
        "site": site[rows],
        "depth": df["depth"].to_numpy(),
        "begin": since,
        "duration": duration[rows],
        "iteration": np.diff(df["iteration"].to_numpy(), prepend=0),
        "issue": (own - issue)[flights] * (issue >= 0)[flights],
        "wait": (wait - own)[flights] * (wait >= 0)[flights],
    }


def _rows(ctas: Ctas, chosen: Ints) -> Ints:
    """The rows of some CTAs; of one with more than there is room for, the first."""
    counts = np.minimum(ctas.rows[chosen], MOST_SPANS)
    offset = np.repeat(np.cumsum(counts) - counts, counts)
    rows: Ints = np.repeat(ctas.first[chosen], counts) + np.arange(int(counts.sum())) - offset
    return rows


MOST_SPANS: Final = 1_000_000
MOST_CTAS: Final = 150_000
_MOST_LAUNCHES: Final = 5_000


@dataclass(frozen=True, eq=False)
class Ctas:
    """One row per CTA of each launch, in the order of the spans; arrays of shape (ctas,).

    launch: the row of the table of launches. start, duration: in the profile's unit, since the launch began.
    first, rows: its rows in the table of spans.
    """

    launch: Ints
    cta: Ints
    sm: Ints
    slot: Ints
    start: Ints
    duration: Ints
    first: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.cta)


def kept_launches(tables: Tables) -> NDArray[np.bool_]:
    """By launch: whether the page has it. The newest, as many as there is room for, at least one."""
    launches = tables.launches
    counts = np.maximum(launches["ctas"].to_numpy(np.int64), 1)[::-1]
    kept = (np.cumsum(counts) <= MOST_CTAS) & (np.arange(len(launches)) < _MOST_LAUNCHES)
    kept[:1] = True
    return np.asarray(kept[::-1])


def ctas_of(tables: Tables, start: Ints, duration: Ints) -> Ctas:
    """All of them. start, duration: of each span."""
    df, launches = tables.df, tables.launches
    runs = run_starts(df)
    launch, cta, sm = (df[name].to_numpy()[runs].astype(np.int64) for name in ("launch", "cta", "sm"))
    change = np.ones(len(runs), np.bool_)
    change[1:] = (launch[1:] != launch[:-1]) | (cta[1:] != cta[:-1])
    first = runs[change]
    rows = np.diff(first, append=len(df))
    end = np.where((df["kind"] != "async").to_numpy(), start + duration, start)
    begin = np.minimum.reduceat(start, first) if len(first) else first
    finish = np.maximum.reduceat(end, first) if len(first) else first
    row_of = pd.Series(np.arange(len(launches)), launches["launch"].to_numpy())
    at = row_of.reindex(launch[change]).fillna(0).to_numpy(np.int64)
    group, _ = pd.factorize(at * (int(sm.max(initial=0)) + 2) + sm[change] + 1)
    # A CTA's last records may be a little late, so that it seems to overlap the next one.
    slot = interval_slots(group.astype(np.int64), begin, finish - (finish - begin) // 50)
    return Ctas(at, cta[change], sm[change], slot, begin, finish - begin, first, rows)


def chosen_ctas(ctas: Ctas, group: Ints, wanted: Sequence[int], most: int = MOST_SPANS) -> Ints:
    """The CTAs whose spans the page has, ascending: all where they fit.

    group: by CTA, its kernel and variant, which share the room by their spans. Of each the longest, the
    shortest and the median CTA are taken, and those that are wanted; then whole SMs of the newest launches,
    so that what ran beside a CTA is there, too.
    """
    if int(ctas.rows.sum()) <= most:
        return np.arange(len(ctas))
    chosen = np.zeros(len(ctas), np.bool_)
    room = most * _shares(np.bincount(group, ctas.rows))
    for number in np.unique(group).tolist():
        own = np.flatnonzero(group == number)
        by_length = own[np.argsort(ctas.duration[own], kind="stable")]
        first = [cta for cta in wanted if group[cta] == number]
        first += by_length[[-1, 0, len(by_length) // 2]].tolist()
        newest = own[np.lexsort((own, ctas.sm[own], -ctas.launch[own]))]
        order = np.array(list(dict.fromkeys([*first, *newest.tolist()])), np.int64)
        fits = np.cumsum(ctas.rows[order]) <= room[number]
        fits[0] = True
        chosen[order[fits]] = True
    return np.flatnonzero(chosen)


def _shares(spans: NDArray[Any]) -> Floats:
    """Of the room, by group: half alike, half by spans."""
    held = spans > 0
    return np.asarray(0.5 * held / max(1, held.sum()) + 0.5 * spans / max(1.0, spans.sum()), np.float64)


# What the spans of each site say beyond the summary: stages, and how durations spread.

_BINS: Final = 8
"""Of a histogram, for each doubling; see charts.js."""


@dataclass(frozen=True, eq=False)
class Sites:
    """site: of each span. table: its SITE_COLUMNS. stages: by site, the stages that its ops stand in.

    histograms: by kernel and variant, [site, first bin, counts] of each of its sites; a bin
    is an eighth of a doubling, bin 0 holds durations up to 1."""

    site: Ints
    table: pd.DataFrame
    stages: list[str]
    histograms: dict[tuple[str, int], list[list[Any]]]


def known_sites(tables: Tables, duration: Ints) -> Sites:
    """Those of a profile's spans. duration: of each span, in the page's unit."""
    df = tables.df
    site, table = sites(df)
    return Sites(site, table, stages_of(df, site, len(table)), _histograms(tables, site, duration, table))


def _histograms(
    tables: Tables, site: Ints, duration: Ints, table: pd.DataFrame
) -> dict[tuple[str, int], list[list[Any]]]:
    """See `Sites`."""
    row, places = _configured(tables, site, table)
    if not len(site):
        return {}
    bins = np.zeros(len(site), np.int64)
    np.rint(_BINS * np.log2(np.maximum(duration, 1).astype(np.float32)), out=bins, casting="unsafe")
    most = int(bins.max()) + 1
    counts = np.bincount(row * most + bins, minlength=len(places) * most).reshape(len(places), most)
    known: dict[tuple[str, int], list[list[Any]]] = {}
    for place, own in zip(places, counts, strict=True):
        seen = np.flatnonzero(own)
        told = [place.site, int(seen[0]), own[seen[0] : seen[-1] + 1].tolist()]
        known.setdefault((place.kernel, place.variant), []).append(told)
    return known


class _Place(NamedTuple):
    kernel: str
    variant: int
    site: int


def _configured(tables: Tables, site: Ints, table: pd.DataFrame) -> tuple[Ints, list[_Place]]:
    """A number for each span, and what it is of: a site of a kernel, in one of its configurations."""
    groups = tables.launches[list(GROUP_COLUMNS)].drop_duplicates()
    kernels = table["kernel"].astype("str").tolist()
    if not groups["kernel"].duplicated().any():  # each site has but one
        known = dict(zip(groups["kernel"], groups["variant"].tolist(), strict=True))
        return site, [_Place(kernel, known.get(kernel, 0), at) for at, kernel in enumerate(kernels)]
    number, groups = launch_groups(tables.launches)
    group = number.of(tables.df["launch"].to_numpy())
    each = len(groups)
    row, first = numbered(site * each + group, max(1, len(table)) * each)
    variants = groups["variant"].tolist()
    places = zip(site[first].tolist(), group[first].tolist(), strict=True)
    return row, [_Place(kernels[at], variants[own], at) for at, own in places]
