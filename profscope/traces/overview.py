"""The tracks above the spans of a trace: launches, SMs' parts in them, CTAs.

Without it a viewer shows empty rows until every group is opened. Nothing of it is read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.texts import count_text
from profscope.schema import Tables
from profscope.traces.tracks import Tracks, run_starts

__all__ = ["SUMMARY", "Bars", "group_bars", "launch_args", "warp_runs"]

Ints = NDArray[np.int64]
Key = tuple[int, ...]
SUMMARY: Final = "summary"
"""The category of what is drawn besides spans."""

_LEVELS: Final = ("device", "kernel", "sm", "slot")
_KERNEL, _SM, _SLOT = 2, 3, 4


class Bars(NamedTuple):
    """The slices of a track: in order of time, never two at once."""

    start_ns: Ints
    end_ns: Ints
    name: list[str]
    args: list[dict[str, object]]

    def taken(self, chosen: NDArray[np.bool_]) -> Bars:
        """Those that are chosen, shape (bars,), as they begin, the longest of those first."""
        at = np.flatnonzero(chosen)
        at = at[np.lexsort((-self.end_ns[at], self.start_ns[at]))]
        name, args = [self.name[row] for row in at.tolist()], [self.args[row] for row in at.tolist()]
        return Bars(self.start_ns[at], self.end_ns[at], name, args)


class WarpRuns(NamedTuple):
    """What each warp of each CTA did, from its first record to its last; all of shape (runs,).

    first  its first row
    track  its track, a number of `Tracks.table`
    """

    first: Ints
    start_ns: Ints
    end_ns: Ints
    track: Ints


def warp_runs(df: pd.DataFrame, tracks: Tracks) -> WarpRuns:
    """Those of a span table that has rows; what is in flight may outlast them."""
    first = run_starts(df)
    start = df["start_ns"].to_numpy()
    end = start + np.where((df["kind"] == "async").to_numpy(), 0, df["duration_ns"].to_numpy())
    return WarpRuns(
        first, np.minimum.reduceat(start, first), np.maximum.reduceat(end, first), tracks.track[: len(first)]
    )


def group_bars(tables: Tables, tracks: Tracks, runs: WarpRuns) -> dict[Key, Bars]:
    """By group of tracks, whose key begins (device, kernel, SM, slot): launches on GPUs and kernels, each
    launch's CTAs on SMs, and CTAs on slots. What other tools recorded has none."""
    launch, cta = (tables.df[name].to_numpy()[runs.first].astype(np.int64) for name in ("launch", "cta"))
    place = tracks.table[list(_LEVELS)].to_numpy(np.int64)[runs.track].T
    inside = place[_KERNEL - 1] >= 0
    alone = np.ones(len(launch), np.int64)
    of_warps = [each[inside] for each in (*place, launch, cta, runs.start_ns, runs.end_ns, alone)]
    if not len(of_warps[0]):
        return {}
    ctas = _together(of_warps[:6], of_warps[6], of_warps[7], of_warps[8])
    parts = _together([*ctas[:_SM], ctas[4]], ctas[6], ctas[7], np.ones(len(ctas[0]), np.int64))
    whole = _together([*parts[:_KERNEL], parts[_SM]], parts[4], parts[5], parts[6])
    about = tables.launches.drop_duplicates("launch")
    args = {int(row["launch"]): launch_args(row) for row in about.to_dict("records")}
    names = dict(zip(about["launch"].tolist(), about["kernel"].tolist(), strict=True))
    return {
        **_bars(1, [whole[0]], whole[2:], names, args),
        **_bars(_KERNEL, whole[:2], whole[2:], names, args),
        **_bars(_SM, parts[:3], parts[3:], names, args),
        **_bars(_SLOT, ctas[:4], [ctas[4], *ctas[6:8], ctas[5]], names, args),
    }


def _together(keys: Sequence[Ints], start: Ints, end: Ints, count: Ints) -> list[Ints]:
    """Rows of the same keys as one, in the keys' order: keys, least start, greatest end, sum of counts."""
    order = np.lexsort(keys[::-1])
    sorted_keys = np.stack(keys)[:, order]
    first = np.flatnonzero(np.append(True, (np.diff(sorted_keys) != 0).any(axis=0)))
    return [
        *sorted_keys[:, first],
        np.minimum.reduceat(start[order], first),
        np.maximum.reduceat(end[order], first),
        np.add.reduceat(count[order], first),
    ]


def _bars(
    depth: int,
    keys: Sequence[Ints],
    columns: Sequence[Ints],
    names: Mapping[int, str],
    args: Mapping[int, dict[str, object]],
) -> dict[Key, Bars]:
    """Those of all groups of one level; such as overlap are one.

    columns: launch, start, end, and how many CTAs, of a slot which one. names: each launch's kernel.
    """
    order = np.lexsort((columns[2], columns[1], *keys[::-1]))
    drawn: dict[Key, list[_Bar]] = {}
    rows = zip(*(each[order].tolist() for each in columns), strict=True)
    groups = zip(*(each[order].tolist() for each in keys), strict=True)
    for key, (launch, start, end, ctas) in zip(groups, rows, strict=True):
        mine = drawn.setdefault(key, [])
        if mine and start < mine[-1].end_ns:
            mine[-1] = mine[-1].joined(end, ctas)
        else:
            mine.append(_Bar(start, end, launch, ctas))
    return {
        key: Bars(
            np.array([bar.start_ns for bar in mine], np.int64),
            np.array([bar.end_ns for bar in mine], np.int64),
            [bar.name(depth, names) for bar in mine],
            [bar.args(depth, args) for bar in mine],
        )
        for key, mine in drawn.items()
    }


class _Bar(NamedTuple):
    """ctas: how many; on a slot, which one."""

    start_ns: int
    end_ns: int
    launch: int
    ctas: int
    launches: int = 1

    def joined(self, end_ns: int, ctas: int) -> _Bar:
        return self._replace(
            end_ns=max(self.end_ns, end_ns), ctas=self.ctas + ctas, launches=self.launches + 1
        )

    def name(self, depth: int, kernels: Mapping[int, str]) -> str:
        if depth == _SLOT:
            return f"CTA {self.ctas}"
        if self.launches > 1:
            return f"{self.launches} launches"
        return (kernels.get(self.launch, ""), f"launch {self.launch}", count_text(self.ctas, "CTA"))[
            depth - 1
        ]

    def args(self, depth: int, known: Mapping[int, dict[str, object]]) -> dict[str, object]:
        if depth == _SLOT:
            return {"launch": self.launch}
        launch = "launch" if self.launches == 1 else "first_launch"
        more = known.get(self.launch, {}) if depth < _SM and self.launches == 1 else {}
        return {launch: self.launch, "recorded_ctas": self.ctas, **more}


def launch_args(row: Mapping[Any, Any]) -> dict[str, object]:
    """The text of a drawn launch."""
    grid = " x ".join(str(row[f"grid_{axis}"]) for axis in "xyz")
    known: dict[str, object] = {"grid": grid, "warps": int(row["num_warps"]), "stream": int(row["stream"])}
    if row["variant"]:
        known["variant"] = int(row["variant"])
    if np.isfinite(row["clock_ghz"]):
        known["clock_ghz"] = float(row["clock_ghz"])
    return known
