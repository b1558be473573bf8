"""What the spans of each site say beyond the summary: stages, and how durations spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.op_labels import stages_of
from profscope.analysis.spans.rows import GROUP_COLUMNS, Ints, launch_groups, numbered, sites
from profscope.schema import Tables

__all__ = ["Sites", "known_sites"]

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
