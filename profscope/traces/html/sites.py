"""What the spans of each site say beyond the summary: stages, what waits for what, how durations spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import Ints, sites
from profscope.analysis.stages import stages_of
from profscope.analysis.transactions import ended_work
from profscope.schema import Tables

__all__ = ["Pairing", "Sites", "known_sites"]

_BINS: Final = 8
"""Of a histogram, for each doubling."""


@dataclass(frozen=True)
class Pairing:
    """Work that a site starts, and the wait that ends it: sites; how often; means of a span, in the unit."""

    issue: int
    wait: int
    count: int
    in_flight: float
    waiting: float


@dataclass(frozen=True, eq=False)
class Sites:
    """site: of each span. table: its SITE_COLUMNS. stages: by site, the stages that its ops stand in."""

    site: Ints
    table: pd.DataFrame
    stages: list[str]
    pairings: list[Pairing]
    histograms: list[list[Any]]


def known_sites(tables: Tables, duration: Ints) -> Sites:
    """Those of a profile's spans. duration: of each span, in the page's unit."""
    df = tables.df
    site, table = sites(df)
    stages, pairings = stages_of(df, site, len(table)), _pairings(df, site, duration)
    return Sites(site, table, stages, pairings, _histograms(site, duration, table))


def _pairings(df: pd.DataFrame, site: Ints, duration: Ints) -> list[Pairing]:
    flights, issue, wait = ended_work(df)
    if not len(flights):
        return []
    most = int(site.max()) + 1
    key, number = np.unique(site[issue] * most + site[wait], return_inverse=True)
    count = np.bincount(number)
    means = [np.bincount(number, duration[rows]) / count for rows in (flights, wait)]
    return [
        Pairing(int(k // most), int(k % most), int(n), float(flown), float(waited))
        for k, n, flown, waited in zip(key, count, *means, strict=True)
    ]


def _histograms(site: Ints, duration: Ints, table: pd.DataFrame) -> list[list[Any]]:
    """By site: [first bin, counts]; a bin is an eighth of a doubling, bin 0 holds durations up to 1."""
    if not len(site):
        return []
    bins = np.zeros(len(site), np.int64)
    np.rint(_BINS * np.log2(np.maximum(duration, 1).astype(np.float32)), out=bins, casting="unsafe")
    most = int(bins.max()) + 1
    counts = np.bincount(site * most + bins, minlength=len(table) * most).reshape(len(table), most)
    rows = []
    for own in counts:
        seen = np.flatnonzero(own)
        rows.append([int(seen[0]), own[seen[0] : seen[-1] + 1].tolist()])
    return rows
