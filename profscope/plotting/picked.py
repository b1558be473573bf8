"""Which launch of a profile a figure is of, and its CTAs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import Ints, grid_ctas
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.traces.html.ctas import Ctas, ctas_of
from profscope.traces.html.spans import times

__all__ = ["Picked", "listed", "picked"]

_NAMED = 5


@dataclass(frozen=True, eq=False)
class Picked:
    """One launch with spans. tables: those of it alone, `parent` and `wait` are of the whole table.

    start, duration: of each span, since the launch began, in `unit`, "ns" or "cycles"; int64 of shape
    (spans,).
    """

    kernel: str
    launch: int
    tables: Tables
    start: Ints
    duration: Ints

    @property
    def unit(self) -> str:
        return self.tables.unit

    @cached_property
    def ctas(self) -> Ctas:
        """The CTAs that were recorded."""
        return ctas_of(self.tables, self.start, self.duration)

    @property
    def longest(self) -> float:
        """From the begin of the launch to the end of its last CTA; one unit of time at least, since a clock
        may have stood still meanwhile."""
        return max(1.0, float((self.ctas.start + self.ctas.duration).max()))

    @property
    def grid(self) -> int:
        """The CTAs of the launch, 0 where nobody says."""
        return max(0, int(grid_ctas(self.tables.launches)[0]))

    @property
    def is_whole(self) -> bool:
        """Whether all CTAs were recorded."""
        return len(self.ctas) >= self.grid

    @property
    def title(self) -> str:
        """Of which launch a figure is."""
        return f"{self.kernel}, launch {self.launch}"

    @property
    def part(self) -> str:
        """How much of it was recorded, "" if all."""
        return "" if self.is_whole else f"{len(self.ctas):,} of {self.grid:,} CTAs were recorded"


def picked(tables: Tables, launch: int | None, kernel: str | None, what: str) -> Picked:
    """The launch that is asked for, or else the kernel's of median length; see `Plots`. what: for errors."""
    launches = _with_spans(tables, what)
    if kernel is not None:
        launches = _of_kernel(launches, kernel, what)
    if launch is not None:
        own = launches[launches["launch"] == launch]
        if own.empty:
            whose, known = "" if kernel is None else f" of {kernel}", listed(launches["launch"].tolist())
            raise DrawError(f"{what}: no launch {launch}{whose} has spans; there are {known}")
    else:
        own = _median(launches if kernel is not None else _heaviest(launches))
    number = int(own["launch"].iloc[0])
    first, last = np.searchsorted(tables.df["launch"].to_numpy(), [number, number + 1])
    alone = replace(tables, df=tables.df.iloc[first:last], launches=own.reset_index(drop=True))
    return Picked(str(own["kernel"].iloc[0]), number, alone, *times(alone))


def listed(values: list[int] | list[str]) -> str:
    """The first of them, and how many more there are."""
    named = ", ".join(map(str, values[:_NAMED]))
    return named + (f" and {len(values) - _NAMED:,} more" if len(values) > _NAMED else "")


def _with_spans(tables: Tables, what: str) -> pd.DataFrame:
    launches = tables.launches
    own = launches[launches["launch"].isin(np.unique(tables.df["launch"].to_numpy()))]
    if len(own):
        return own
    raise DrawError(f"{what} needs spans, and this profile has none")


def _of_kernel(launches: pd.DataFrame, kernel: str, what: str) -> pd.DataFrame:
    own = launches[launches["kernel"] == kernel]
    if own.empty:
        known = launches["kernel"].drop_duplicates().astype("str").tolist()
        raise DrawError(f"{what}: no launch of a kernel {kernel!r} has spans; there are {listed(known)}")
    return own


def _heaviest(launches: pd.DataFrame) -> pd.DataFrame:
    took = (launches["end_ns"] - launches["start_ns"]).groupby(launches["kernel"], sort=False).sum()
    return launches[launches["kernel"] == took.idxmax()]


def _median(launches: pd.DataFrame) -> pd.DataFrame:
    """The launch of median length, as a table of one row."""
    warm = launches[~launches["cold"]]
    own = warm if len(warm) else launches
    order = np.argsort((own["end_ns"] - own["start_ns"]).to_numpy(), kind="stable")
    return own.iloc[order[(len(order) - 1) // 2] :][:1]
