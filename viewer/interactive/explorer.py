"""What the interactive view shows: a kernel, one of its CTAs or an SM, a window of time, a warp, a moment."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.model.build import by_configuration
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.spans.ctas import ctas_with_spans
from profscope.analysis.spans.rows import narrow_sites
from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.viewer.timeline import Lane, LegendEntry, draw_lanes

__all__ = ["Cta", "Drawn", "Explorer"]

Ints = NDArray[np.int64]
_LEAST = 8
"""Units of time that the closest zoom shows."""


@dataclass(frozen=True)
class Cta:
    """One CTA of one launch, and how long it took in the view's unit."""

    launch: int
    cta: int
    sm: int
    took: int


@dataclass(frozen=True)
class Drawn:
    """The lanes in the window, each with its CTA, and the legend of their symbols."""

    lanes: list[tuple[int, Lane]]
    legend: list[LegendEntry]


class Explorer:
    """Times are in `unit` since the start of what is shown. kernels: those with spans of CTAs, by the time of
    their launches; kernel: the chosen one's place among them; at: the CTA's place in `ctas`, the kernel's,
    slowest first; lane_scopes: what has lanes below a warp's; begin, end: the window; cursor: the chosen
    moment; lane: the chosen warp's place among the lanes of warps.

    Raises TraceError for a profile without spans of CTAs.
    """

    def __init__(self, tables: Tables, model: ProfileModel) -> None:
        self._df, self.unit = tables.df, model.unit
        self._start, self._length = (
            ("start_ns" if self.unit == "ns" else "start_cycle"),
            f"duration_{self.unit}",
        )
        self._sites = narrow_sites(self._df)[1]
        ctas = ctas_with_spans(tables).sort_values(self.unit, ascending=False, kind="stable")
        self._ctas = by_configuration(ctas)
        self.kernels = [entry for entry in model.kernels if (entry.kernel, entry.variant) in self._ctas]
        if not self.kernels:
            raise TraceError("this trace has no spans of CTAs to explore")
        self.whole_sm, self.pattern = False, ""
        self.choose_kernel(0)

    def choose_kernel(self, kernel: int) -> None:
        """Show the slowest CTA of a kernel."""
        self.kernel = kernel
        own = self._ctas[self.entry.kernel, self.entry.variant]
        columns = (own[name].tolist() for name in ("launch", "cta", "sm", self.unit))
        self.ctas = [Cta(*numbers) for numbers in zip(*columns, strict=True)]
        self._show(0)

    @property
    def entry(self) -> KernelEntry:
        """What the model says of the kernel."""
        return self.kernels[self.kernel]

    def _show(self, at: int) -> None:
        """Show another CTA, or its SM, from start to end."""
        self.at = min(max(at, 0), len(self.ctas) - 1)
        cta = self.cta
        df = self._df
        chosen = (df["launch"] == cta.launch) & (
            (df["sm"] == cta.sm) if self.whole_sm else (df["cta"] == cta.cta)
        )
        self.rows: pd.DataFrame = df[chosen]
        start = self.rows[self._start].to_numpy(np.int64)
        beside = self.rows["kind"].isin(["async", "mark"])
        self.lane_scopes = [str(scope) for scope in self.rows["scope"][beside].unique()]
        self._starts: Ints = start - start.min()
        self._ends: Ints = self._starts + self.rows[self._length].to_numpy(np.int64)
        is_sync = (self.rows["kind"] != "async").to_numpy()
        self.duration = max(int(self._ends[is_sync].max()), 1)
        self.begin, self.end, self.cursor, self.lane = 0, self.duration, 0, 0
        is_first = (self.rows["cta"] == self.warps[0][0]) & (self.rows["warp"] == self.warps[0][1])
        self.go(int(self._starts[is_first.to_numpy()].min()))

    @property
    def cta(self) -> Cta:
        return self.ctas[self.at]

    @property
    def warps(self) -> list[tuple[int, int]]:
        """(CTA, warp) of each lane."""
        return sorted(set(zip(self.rows["cta"].tolist(), self.rows["warp"].tolist(), strict=True)))

    def step(self, count: int) -> None:
        """To a faster CTA, or with a negative count to a slower one."""
        self._show(self.at + count)

    def toggle_sm(self) -> None:
        """Show all CTAs of the launch that ran on this SM, or this CTA alone again."""
        self.whole_sm = not self.whole_sm
        self._show(self.at)

    def zoom(self, factor: float) -> None:
        """Show `factor` times the time, around the cursor."""
        length = min(max(round((self.end - self.begin) * factor), _LEAST), self.duration)
        part = (self.cursor - self.begin) / (self.end - self.begin)
        self._place(round(self.cursor - part * length), length)

    def pan(self, part: float) -> None:
        """Move the window by a part of its length; the cursor stays in it."""
        length = self.end - self.begin
        self._place(self.begin + round(part * length), length)

    def move(self, part: float) -> None:
        """Move the cursor by a part of the window's length, and the window where it would leave it."""
        self.go(self.cursor + round(part * (self.end - self.begin)) or int(part > 0) - int(part < 0))

    def go(self, time: int) -> None:
        """Set the cursor to a time, and bring it into the window."""
        self.cursor = min(max(time, 0), self.duration - 1)
        length = self.end - self.begin
        if not self.begin <= self.cursor < self.end:
            self._place(self.cursor - length // 2, length)

    def choose(self, lanes: int) -> None:
        """To a warp further down, or with a negative number up."""
        self.lane = min(max(self.lane + lanes, 0), len(self.warps) - 1)

    def _place(self, begin: int, length: int) -> None:
        length = min(max(length, 1), self.duration)
        self.begin = min(max(begin, 0), self.duration - length)
        self.end = self.begin + length
        self.cursor = min(max(self.cursor, self.begin), self.end - 1)

    def filter(self, pattern: str) -> bool:
        """Draw only scopes that match; "" draws all. A pattern that is no regular expression is searched for
        as it is.

        False if no scope of the kernel matches: the filter stays as it was.
        """
        try:
            re.compile(pattern)
        except re.error:
            pattern = re.escape(pattern)
        launches = self._ctas[self.entry.kernel, self.entry.variant]["launch"].unique()
        scopes = self._df["scope"][self._df["launch"].isin(launches)].unique()
        if not any(re.search(pattern, str(scope)) for scope in scopes):
            return False
        self.pattern = pattern
        return True

    def drawn(self, cells: int) -> Drawn:
        """What is in the window, in so many cells; what the filter leaves out is a dot."""
        lanes, legend = draw_lanes(
            self.rows, self._starts, self._ends, self.begin, self.end, cells, self._sites
        )
        kept = [entry for entry in legend if not self.pattern or re.search(self.pattern, entry.scope)]
        symbols = {entry.symbol for entry in kept} | {" "}
        if self.pattern:
            lanes = [
                (cta, replace(lane, cells="".join(cell if cell in symbols else "·" for cell in lane.cells)))
                for cta, lane in lanes
                if not lane.scope or re.search(self.pattern, lane.scope)
            ]
        return Drawn(lanes, kept)

    def selected(self) -> int | None:
        """The innermost span at the cursor in the chosen warp: its row of the table; None between spans."""
        cta, warp = self.warps[self.lane]
        mine = (
            (self.rows["cta"] == cta)
            & (self.rows["warp"] == warp)
            & ~self.rows["kind"].isin(["async", "mark"])
        )
        at = np.flatnonzero(mine.to_numpy() & (self._starts <= self.cursor) & (self.cursor < self._ends))
        return int(self.rows.index[at[-1]]) if len(at) else None

    def follow(self) -> bool:
        """From a copy to the wait that ended it; from a wait to the first copy that it ended. False where
        there is neither, or it is in a CTA that is not shown."""
        chosen = self.selected()
        if chosen is None:
            return False
        is_async = self.rows["kind"] == "async"
        issued = self.rows[is_async & (self.rows["parent"] == chosen) & (self.rows["wait"] >= 0)]
        ended = self.rows[is_async & (self.rows["wait"] == chosen)]
        target = (
            int(issued["wait"].iloc[0]) if len(issued) else int(ended["parent"].iloc[0]) if len(ended) else -1
        )
        if target not in self.rows.index:
            return False
        row: Any = self.rows.loc[target]
        self.lane = self.warps.index((int(row["cta"]), int(row["warp"])))
        self.go(int(self._starts[self.rows.index.get_loc(target)]))
        return True

    def next_of(self, direction: int) -> bool:
        """To the next span of the chosen warp that the filter leaves, or the one before. False if there is
        none."""
        cta, warp = self.warps[self.lane]
        mine = (self.rows["cta"] == cta) & (self.rows["warp"] == warp) & (self.rows["kind"] != "async")
        fits = [bool(re.search(self.pattern, str(scope))) for scope in self.rows["scope"]]
        starts = np.unique(self._starts[mine.to_numpy() & np.array(fits)])
        there = starts[starts > self.cursor][:1] if direction > 0 else starts[starts < self.cursor][-1:]
        if not len(there):
            return False
        self.go(int(there[0]))
        return True
