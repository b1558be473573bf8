"""What the interactive view stands on: a CTA or an SM, a window of its time, a warp and a moment in it."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import narrow_sites
from profscope.errors import TraceError
from profscope.profiles import Profile
from viewer.timeline import Lane, LegendEntry, draw_lanes

__all__ = ["Cta", "Drawn", "Explorer"]

Ints = NDArray[np.int64]
_LEAST = 8
"""Units of time that the closest zoom shows."""


@dataclass(frozen=True)
class Cta:
    """One CTA of one launch, and how long it took in the view's unit."""

    kernel: str
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
    """Times are in `unit` since the start of what is shown. at: the CTA's place in `ctas`, slowest first;
    begin, end: the window; cursor: the chosen moment; lane: the chosen warp's place among the lanes of warps.

    Raises TraceError for a profile without spans of CTAs.
    """

    def __init__(self, profile: Profile, unit: str) -> None:
        self._df, self.unit = profile.tables.df, unit
        self._start, self._length = ("start_ns" if unit == "ns" else "start_cycle"), f"duration_{unit}"
        self._sites = narrow_sites(self._df)[1]
        self.ctas = self._slowest_first()
        if not self.ctas:
            raise TraceError("there are no spans of CTAs to look at")
        self.whole_sm, self.pattern = False, ""
        self._show(0)

    def _slowest_first(self) -> list[Cta]:
        roots = self._df[(self._df["depth"] == 0) & (self._df["kind"] != "async") & (self._df["cta"] >= 0)]
        roots = roots.assign(
            end=roots[self._start] + roots[self._length], kernel=roots["kernel"].astype("str")
        )
        ctas = roots.groupby(["kernel", "launch", "cta"]).agg(
            start=(self._start, "min"), end=("end", "max"), sm=("sm", "first")
        )
        ctas["took"] = ctas["end"] - ctas["start"]
        ordered = ctas.sort_values("took", ascending=False, kind="stable").reset_index()
        columns = (ordered[name].tolist() for name in ("kernel", "launch", "cta", "sm", "took"))
        return [Cta(str(kernel), *numbers) for kernel, *numbers in zip(*columns, strict=True)]

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
        self._starts: Ints = start - start.min()
        self._ends: Ints = self._starts + self.rows[self._length].to_numpy(np.int64)
        is_sync = (self.rows["kind"] != "async").to_numpy()
        self.duration = max(int(self._ends[is_sync].max()), 1)
        self.begin, self.end, self.cursor, self.lane = 0, self.duration, 0, 0

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
        """Draw what scopes match alone; "" draws all. A pattern that is none is searched for as it is.

        False where no scope matches: all stays as it is.
        """
        try:
            re.compile(pattern)
        except re.error:
            pattern = re.escape(pattern)
        if not any(re.search(pattern, str(scope)) for scope in self._df["scope"].unique()):
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
                (
                    cta,
                    Lane(
                        lane.warp,
                        lane.scope,
                        "".join(cell if cell in symbols else "·" for cell in lane.cells),
                    ),
                )
                for cta, lane in lanes
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
