"""How long each launch took, as a whole and row by row."""

from __future__ import annotations

from dataclasses import dataclass
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
    OfLaunches,
    counted,
    launch_scales,
    numbered,
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
    corrected durations. bare: launches as a whole are of bare times, which a test's baseline has."""

    def __init__(self, tables: Tables, unit: str, *, corrected: bool = False, bare: bool = False) -> None:
        self.tables = tables
        self._corrected = corrected
        self._bare = bare
        self.unit = unit
        self._scales = launch_scales(tables)

    def all_launches(self, kernel: str, group: LaunchGroup | None) -> pd.DataFrame:
        """The launches of a group that count; none if there is none."""
        if group is None:
            return self.tables.launches.iloc[:0]
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

    def compared_durations(self, launches: pd.DataFrame) -> Durations:
        """Those that a comparison of launches of one group is made of: of bare launches, or of these."""
        if not self._bare or launches.empty:
            return self.durations(launches)
        kernel, variant, *grid = launches.iloc[0][["kernel", "variant", *GRID]]
        entries = (self.tables.metadata.get("variants") or {}).get(kernel) or []
        key = next((each.get("key") for each in entries if each["variant"] == variant), None)
        timed = self.tables.metadata["bare_times"].get(kernel) or []
        own = (each["times"] for each in timed if (each["key"], each["grid"]) == (key, grid))
        times = np.asarray(next(own, []), np.float64)
        in_cycles = self.unit == "cycles" and not self.tables.emulated
        return Durations(times * float(launches["clock_ghz"].median()) if in_cycles else times, times)

    @cached_property
    def _busiest_sms(self) -> pd.Series[float]:
        return busiest_sms(self.tables)

    @cached_property
    def spans(self) -> _AddedUp:
        """All spans, added up once."""
        tables = self.tables
        df = weighed(tables.df, tables.metadata) if self._corrected else tables.df
        return _AddedUp.of(df, tables.launches, f"duration_{self.unit}")

    def figures(self, launches: pd.DataFrame) -> Figures:
        """Of launches of one of the kernel's groups."""
        spans, at = self.spans, launches.index.to_numpy()
        cells = spans.cells[spans.cells["launch"].isin(at)]
        site, row = np.unique(cells["site"].to_numpy(), return_inverse=True)
        column = np.searchsorted(at, cells["launch"].to_numpy())
        scale = self._scales[at]
        figures = {}
        for name in ("count", "total", "own"):
            values = np.zeros((len(site), len(at)))
            values[row, column] = cells[name]
            figures[name] = values * scale
        places = spans.places.iloc[site].reset_index(drop=True)
        ctas = spans.by_cta(int(at[0]), site) if len(at) == 1 else None
        scale_of_one = float(scale[0]) if len(scale) else 1.0
        return Figures(places, **figures, launches=launches, ctas=ctas, scale=scale_of_one)


class _AddedUp(NamedTuple):
    """places: PLACE_COLUMNS of each site. cells: for each site and launch that has spans there, how many, and
    their time in all and by themselves; a launch is its row of the table of launches. By span, its site,
    launch and CTA, and its own time, if it is in flight all of it."""

    places: pd.DataFrame
    cells: pd.DataFrame
    site: Ints
    launch: Ints
    cta: Ints
    took: Ints

    @classmethod
    def of(cls, df: pd.DataFrame, launches: pd.DataFrame, column: str) -> _AddedUp:
        site, places = sites(df)
        launch = OfLaunches(launches, np.arange(len(launches)), -1).of(df["launch"].to_numpy())
        total, own = df[column].to_numpy(), self_times(df, column)
        each = max(1, len(launches))
        number, first = numbered(site * each + launch, len(places) * each)
        sums = (np.bincount(number, values, len(first)) for values in (None, total, own))
        cells = pd.DataFrame(dict(zip(("count", "total", "own"), sums, strict=True)))
        took = np.where(df["kind"] == "async", total, own)
        shown = places[list(PLACE_COLUMNS)]
        cells = cells.assign(site=site[first], launch=launch[first])
        return cls(shown, cells, site, launch, df["cta"].to_numpy(), took)

    def by_cta(self, launch: int, chosen: Ints) -> Floats:
        """What some sites took in one launch, by site and CTA."""
        rows = np.flatnonzero(self.launch == launch)
        cta, ctas = pd.factorize(self.cta[rows])
        cell = np.searchsorted(chosen, self.site[rows]) * len(ctas) + cta
        figures = np.bincount(cell, self.took[rows], len(chosen) * len(ctas)).astype(np.float64)
        return figures.reshape(len(chosen), len(ctas))
