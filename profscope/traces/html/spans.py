"""The spans of the page's timeline, as columns that pack well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.span_rows import Ints, OfLaunches
from profscope.schema import Tables
from profscope.traces.html.ctas import MOST_SPANS, Ctas
from profscope.traces.tracks import run_starts

__all__ = ["span_columns", "times"]


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
