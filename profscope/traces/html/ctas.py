"""The CTAs of all launches, and what of a profile there is room for in the page.

Every CTA is a bar, whatever the size of the profile; the spans inside are kept of so many CTAs as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.span_rows import Floats, Ints
from profscope.schema import Tables
from profscope.traces.tracks import interval_slots, run_starts

__all__ = ["MOST_CTAS", "MOST_SPANS", "Ctas", "chosen_ctas", "ctas_of", "kept_launches"]

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
