"""How long each launch took, as a whole and row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.comparing.pairs import GRID, LaunchGroup
from profscope.analysis.spans.corrections import weighed
from profscope.analysis.spans.ctas import busiest_sms
from profscope.analysis.spans.rows import (
    SITE_COLUMNS,
    Floats,
    Ints,
    counted,
    grid_scales,
    not_samples,
    self_times,
    sites,
)
from profscope.schema import Tables

__all__ = ["PLACE_COLUMNS", "Durations", "Figures", "Side"]

PLACE_COLUMNS = SITE_COLUMNS[1:]


@dataclass(frozen=True, eq=False)
class Figures:
    """Some launches of one variant, in a unit; of each row and launch, scaled up to the launch's grid.

    places      PLACE_COLUMNS, one row each
    count       how often it ran; float64 of shape (rows, launches), as the next two
    total, own  its time, and its time less that of the spans inside (of async spans: none)
    launches    the launches that these are of: rows of the table of launches
    ctas        own, of async spans total, by CTA and not scaled, float64 of shape (rows, CTAs): of a single
                launch
    scale       of that launch, what its CTAs' times are scaled up with
    """

    places: pd.DataFrame
    count: Floats
    total: Floats
    own: Floats
    launches: pd.DataFrame
    ctas: Floats | None = None
    scale: float = 1.0

    @property
    def warp_time(self) -> float:
        """All of a launch's warps together: its self times."""
        return float(self.own.sum(axis=0).mean()) if self.own.size else 0.0


class Durations(NamedTuple):
    """Whole launches' times, shape (launches,), and the same in ns."""

    took: Floats
    ns: Floats


class Side:
    """One of two profiles, asked for figures in one unit, "ns" or "cycles". corrected: rows are of the spans'
    corrected durations."""

    def __init__(self, tables: Tables, unit: str, *, corrected: bool = False) -> None:
        self.tables = tables
        self._corrected = corrected
        self.unit = unit
        launches = tables.launches
        self.scales = np.where(
            launches["kernel"].isin(not_samples(tables.metadata)), 1.0, grid_scales(launches)
        )

    def all_launches(self, kernel: str, group: LaunchGroup) -> pd.DataFrame:
        """The launches of a group that count."""
        return self._groups.get((kernel, group.variant, *group.grid), self.tables.launches.iloc[:0])

    @cached_property
    def _groups(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        launches = self.tables.launches
        real = launches[counted(launches)]
        return dict(iter(real.groupby(["kernel", "variant", *GRID], sort=False, observed=True)))

    @property
    def ctas(self) -> int | tuple[int, ...] | None:
        """The option that chose the recorded CTAs; None in another tool's trace."""
        chosen = (self.tables.metadata.get("options") or {}).get("ctas")
        return chosen if chosen is None or isinstance(chosen, int) else tuple(chosen)

    def warm(self, launches: pd.DataFrame) -> pd.DataFrame:
        """The launches to compare: if there are others, neither cold ones nor the variant's first, whose
        caches are cold, too. The emulator has no caches."""
        if self.tables.emulated:
            return launches
        warm = launches[~launches["cold"] & ~launches["launch"].isin(self._first_launches)]
        return warm if len(warm) else launches

    @cached_property
    def _first_launches(self) -> pd.Series[int]:
        launches = self.tables.launches
        real = launches[counted(launches)]
        return real.groupby(["kernel", "variant"], observed=True)["launch"].min()

    def durations(self, launches: pd.DataFrame) -> Durations:
        """How long launches took as a whole, but for those whose times are not known."""
        ns = (launches["end_ns"] - launches["start_ns"]).to_numpy(np.float64)
        if self.tables.emulated:  # exact, as the timer that counts ns is not
            took = self._busiest_sms.reindex(launches["launch"]).to_numpy(np.float64)
        else:
            clock = launches["clock_ghz"].to_numpy(np.float64) if self.unit == "cycles" else 1.0
            took = np.where(ns > 0, ns * clock, np.nan)
        known = np.isfinite(took)
        return Durations(np.asarray(took[known], np.float64), ns[known])

    @cached_property
    def _busiest_sms(self) -> pd.Series[float]:
        return busiest_sms(self.tables)

    def add_up(self) -> None:
        """All spans, now; else they are when figures are first asked for."""
        _ = self._cells

    @cached_property
    def _cells(self) -> _Cells:
        tables = self.tables
        if self._corrected:
            tables = replace(tables, df=weighed(tables.df, tables.metadata))
        return _Cells.of(tables, self.unit)

    def figures(self, kernel: str, launches: pd.DataFrame) -> Figures:
        """Of launches of one of the kernel's groups."""
        cells = self._cells
        at = launches.index.to_numpy()
        number = cells.of_kernel.get(kernel, np.zeros(0, np.int64))
        cell = cells.base[at][None, :] + np.arange(len(number))[:, None]
        count, total, own = (figures[cell] for figures in (cells.count, cells.total, cells.own))
        ran = count.any(axis=1)
        scale = self.scales[at]
        count, total, own = (figures[ran] * scale for figures in (count, total, own))
        places = cells.places.iloc[number[ran]].reset_index(drop=True)
        ctas = cells.by_cta(launches["launch"].iloc[0], number[ran]) if len(launches) == 1 else None
        return Figures(places, count, total, own, launches, ctas, float(scale[0]) if len(scale) else 1.0)


@dataclass(frozen=True, eq=False)
class _Cells:
    """A span table added up once: each launch has one cell for each site of its kernel.

    of_kernel: by kernel, the numbers of its sites in `places`; base: by row of the table of launches, its
    first cell; rows: by launch, where its spans begin and end.
    """

    tables: Tables
    column: str
    site: Ints
    places: pd.DataFrame
    of_kernel: dict[str, Ints]
    base: Ints
    rows: dict[int, tuple[int, int]]
    count: Floats
    total: Floats
    own: Floats

    @staticmethod
    def of(tables: Tables, unit: str) -> _Cells:
        df, launches = tables.df, tables.launches
        column = f"duration_{unit}"
        site, places = sites(df)
        kernels = places["kernel"].astype("str")
        of_kernel = {name: np.flatnonzero(kernels == name) for name in kernels.unique()}
        local = np.zeros(len(places), np.int64)
        for numbers in of_kernel.values():
            local[numbers] = np.arange(len(numbers))
        sizes = launches["kernel"].map({name: len(numbers) for name, numbers in of_kernel.items()}).fillna(0)
        base = np.concatenate([[0], np.cumsum(sizes.to_numpy(np.int64))])
        starts, of_runs = _runs(df)
        first = pd.Series(base[:-1], launches["launch"]).reindex(of_runs).to_numpy(np.int64)
        cell = local[site] + np.repeat(first, np.diff(starts))
        rows: dict[int, tuple[int, int]] = {}
        for launch, begin, end in zip(
            of_runs.tolist(), starts[:-1].tolist(), starts[1:].tolist(), strict=True
        ):
            rows[launch] = rows.get(launch, (begin, end))[0], end
        sums = [
            np.bincount(cell, weights, minlength=base[-1]).astype(np.float64)
            for weights in (None, df[column].to_numpy(), self_times(df, column))
        ]
        shown = places[list(PLACE_COLUMNS)]
        return _Cells(tables, column, site, shown, of_kernel, base[:-1], rows, *sums)

    def by_cta(self, launch: int, sites_of_kernel: Ints) -> Floats:
        """Own times of one launch, of async spans durations, by site and CTA."""
        if launch not in self.rows:
            return np.zeros((len(sites_of_kernel), 0))
        begin, end = self.rows[launch]
        rows = self.tables.df.iloc[begin:end]
        own = self_times(rows.assign(parent=np.maximum(rows["parent"] - begin, -1)), self.column)
        took = np.where(rows["kind"] == "async", rows[self.column], own)
        took = np.where(rows["launch"] == launch, took, 0)  # others, should its rows not stand together
        cta, ctas = pd.factorize(rows["cta"])
        number = np.zeros(len(self.places), np.int64)
        number[sites_of_kernel] = np.arange(len(sites_of_kernel))
        cell = number[self.site[begin:end]] * len(ctas) + cta
        figures = np.bincount(cell, took, minlength=len(sites_of_kernel) * len(ctas)).astype(np.float64)
        return figures.reshape(len(sites_of_kernel), len(ctas))


def _runs(df: pd.DataFrame) -> tuple[Ints, Ints]:
    """Where rows of one launch begin to stand together, and, one more, the end; and their launches."""
    launch = df["launch"].to_numpy()
    starts = np.flatnonzero(np.diff(launch, prepend=launch[:1] - 1)) if len(launch) else np.zeros(0, np.int64)
    return np.append(starts, len(launch)), launch[starts].astype(np.int64)
