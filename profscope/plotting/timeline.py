"""The warps of one CTA over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from profscope.analysis.scope_colours import FRAMES, IN_FLIGHT, frame_colour, site_colours
from profscope.analysis.spans.rows import Floats, Ints, sites
from profscope.analysis.texts import plain
from profscope.errors import DrawError
from profscope.plotting.canvas import (
    INK,
    Picked,
    axes_for,
    label_time,
    legend_below,
    listed,
    picked,
    set_text,
    short_name,
    title,
    unit_scale,
)
from profscope.schema import Tables
from profscope.traces.tracks import interval_slots

__all__ = ["DOTS", "drawn_bars", "timeline"]

_FRAME, _OP, _FLIGHT, _APART = 0.2, 1.0, 0.3, 0.4  # heights of rows, and what lies between two warps
_INCHES: Final = 0.2  # of a row of height 1
_MOST_ROWS: Final = 40.0
_IN_LEGEND: Final = 14
_WIDTH: Final = 10.0
_LETTER: Final = 0.0062  # of the width of the axes, for a letter in a bar
_FEWEST_LETTERS, _MOST_NAMES = 3, 400
_GREY: Final = frame_colour("loop")


DOTS: Final = 1600
"""Across a figure's width: what is narrower than one of them is drawn as a part of it."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Where bars lie. row: of each span; y: by row its top; height: by row; warps: names and middles."""

    row: Ints
    y: Floats
    height: Floats
    warps: list[tuple[str, float]]

    @property
    def whole(self) -> float:
        return float((self.y + self.height).max(initial=1.0))


def timeline(
    tables: Tables,
    cta: int | None,
    launch: int | None,
    kernels: str | None,
    *,
    between: tuple[float, float] | None,
    ax: Axes | None,
) -> Figure:
    """See `Plots.timeline`."""
    chosen = picked(tables, launch, kernels, "prof.plot.timeline()")
    at = _cta(chosen, cta)
    rows = slice(int(chosen.ctas.first[at]), int(chosen.ctas.first[at] + chosen.ctas.rows[at]))
    df, start, duration = chosen.tables.df.iloc[rows], chosen.start[rows], chosen.duration[rows]
    scale, unit = unit_scale(float((start + duration).max()), chosen.unit)
    begin, end = start / scale, (start + duration) / scale
    window = _window(between, float(begin.min()), float(end.max()))
    site, table = sites(df)
    colours = np.array(site_colours(table, sites(tables.df)[1]))
    lay = _rows(df, start, duration)
    figure, ax = axes_for(ax, _WIDTH, 1.6 + _INCHES * min(_MOST_ROWS, lay.whole))
    solid = (df["kind"] != "mark").to_numpy()
    bars = drawn_bars(lay.row[solid], begin[solid], end[solid], site[solid], window)
    ax.add_collection(_rectangles(lay, bars, colours))
    marks = np.flatnonzero(~solid & (begin >= window[0]) & (begin <= window[1]))
    top = lay.y[lay.row[marks]]
    ax.vlines(begin[marks], top, top + lay.height[lay.row[marks]], color=INK, linewidth=0.8)
    _write_names(ax, lay, bars, table, window)
    ax.set_xlim(*window)
    ax.set_ylim(lay.whole + 0.2, -0.2)
    ax.set_yticks([middle for _, middle in lay.warps], [plain(name) for name, _ in lay.warps])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.tick_params(axis="y", length=0, labelsize=8)
    label_time(ax, unit)
    # What is in flight takes no time of the warp, and would come first.
    inside = np.minimum(end, window[1]) - np.maximum(begin, window[0])
    _legend(ax, site, table, np.where(df["kind"] == "async", 1e-9, np.maximum(inside, 0)), colours)
    where = f"CTA {int(chosen.ctas.cta[at])}" if chosen.ctas.cta[at] >= 0 else "spans"
    where += f" on SM {int(chosen.ctas.sm[at])}" if chosen.ctas.sm[at] >= 0 else ""
    title(ax, f"{short_name(chosen.kernel)}, launch {chosen.launch}, {where}", emulated=tables.emulated)
    return figure


def _cta(chosen: Picked, cta: int | None) -> int:
    """The row of the CTA among those of the launch."""
    ctas = chosen.ctas
    if cta is None:
        order = np.argsort(ctas.duration, kind="stable")
        return int(order[(len(order) - 1) // 2])
    rows = np.flatnonzero(ctas.cta == cta)
    if not len(rows):
        known = listed(np.sort(ctas.cta).tolist())
        raise DrawError(
            f"prof.plot.timeline(): launch {chosen.launch} has no spans of CTA {cta}; it has those of {known}"
        )
    return int(rows[0])


def _window(between: tuple[float, float] | None, low: float, high: float) -> tuple[float, float]:
    if between is None:
        return low, max(high, low + 1e-9)
    first, last = between
    if not (first < last and first < high and last > low):
        raise DrawError(
            f"prof.plot.timeline(): between={between!r} holds nothing of the CTA's time, {low:,.6g} to "
            f"{high:,.6g}"
        )
    return first, last


def _rows(df: pd.DataFrame, start: Ints, duration: Ints) -> _Rows:
    """For each warp: thin rows for the kernel and its loops, one for ops, more for those inside of ops, and
    narrow ones for what is in flight."""
    warp = df["warp"].to_numpy().astype(np.int64)
    kind = df["kind"].astype("str").to_numpy()
    frame, flight = np.isin(kind, tuple(FRAMES)), kind == "async"
    frames, ops = _nesting(df, frame)
    first_op = int(frames.max(initial=0)) + 1
    first_flight = first_op + int(ops.max(initial=0)) + 1
    lane = np.where(frame, frames, first_op + ops)
    if flight.any():
        end = (start + duration)[flight] - 1  # what touches may share a lane
        lane[flight] = first_flight + interval_slots(warp[flight], start[flight], end)
    key = warp * (int(lane.max()) + 1) + lane
    _, first, row = np.unique(key, return_index=True, return_inverse=True)
    height = np.where(flight[first], _FLIGHT, np.where(frame[first], _FRAME, _OP))
    of_warp = warp[first]
    apart = np.append(0.0, np.where(of_warp[1:] != of_warp[:-1], _APART, 0.0))
    y = np.cumsum(height + apart) - height
    names = _names(df, warp)
    warps = []
    for each in np.unique(of_warp).tolist():
        own = np.flatnonzero(of_warp == each)
        warps.append((names(each), float(y[own[0]] + y[own[-1]] + height[own[-1]]) / 2))
    return _Rows(row.astype(np.int64), y, height, warps)


def _nesting(df: pd.DataFrame, frame: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """By span, in how many frames and in how many others it lies."""
    depth = df["depth"].to_numpy()
    parent = df["parent"].to_numpy() - int(df.index[0])
    frames, ops = np.zeros(len(df), np.int64), np.zeros(len(df), np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero((depth == level) & (parent >= 0) & (parent < len(df)))
        around = parent[rows]
        frames[rows] = frames[around] + frame[around]
        ops[rows] = ops[around] + ~frame[around]
    return frames, ops


def _names(df: pd.DataFrame, warp: Ints) -> Callable[[int], str]:
    """What warps are called: in a warp-specialised kernel by the partition that they run, too."""
    roots = np.flatnonzero(df["depth"].to_numpy() == 0)
    first = roots[np.unique(warp[roots], return_index=True)[1]]
    scopes = dict(zip(warp[first].tolist(), df["scope"].astype("str").to_numpy()[first], strict=True))
    if len(set(scopes.values())) < 2:
        return lambda each: f"warp {each}"
    kernel = str(df["kernel"].iloc[0])
    short = {
        each: "default" if scope == kernel else scope.replace(f"{kernel} ", "")
        for each, scope in scopes.items()
    }
    return lambda each: f"{short.get(each, '')}, warp {each}"


def _rectangles(
    lay: _Rows, bars: tuple[Ints, Floats, Floats, Ints], colours: NDArray[np.str_]
) -> PolyCollection:
    row, begin, end, site = bars
    top, bottom = lay.y[row], lay.y[row] + 0.94 * lay.height[row]
    corners = np.stack([begin, top, begin, bottom, end, bottom, end, top], axis=1).reshape(-1, 4, 2)
    # The edge of a bar that is wide enough parts it from the next one.
    return PolyCollection(list(corners), facecolors=colours[site], edgecolors="white", linewidths=0.15)


def _write_names(
    ax: Axes,
    lay: _Rows,
    bars: tuple[Ints, Floats, Floats, Ints],
    table: pd.DataFrame,
    window: tuple[float, float],
) -> None:
    """The scope's name in bars of ops that have room for it; the longest bars first."""
    row, begin, end, site = bars
    names = table["scope"].astype("str").tolist()
    part = (end - begin) / (window[1] - window[0])
    room = (part / _LETTER).astype(np.int64)
    order = np.argsort(-part, kind="stable")
    for at in order[(lay.height[row[order]] == _OP) & (room[order] >= _FEWEST_LETTERS)][
        :_MOST_NAMES
    ].tolist():
        name = names[int(site[at])]
        if len(name) > room[at]:
            continue
        y = lay.y[row[at]] + 0.49 * lay.height[row[at]]
        text = ax.text(
            (begin[at] + end[at]) / 2, y, "", ha="center", va="center", fontsize=6.5, color=INK, clip_on=True
        )
        set_text(text, name)


def _legend(ax: Axes, site: Ints, table: pd.DataFrame, seen: Floats, colours: NDArray[np.str_]) -> None:
    """Scopes in order of the time that is seen of them; what is in flight is as what started it."""
    total = np.bincount(site, seen, len(table))
    shown: dict[str, str] = {}
    for at in np.argsort(-total, kind="stable").tolist():
        row = table.iloc[at]
        if total[at] > 0 and row["kind"] not in FRAMES:
            line = f", line {row['line']}" if row["line"] else ""
            name = short_name(str(row["scope"]).removesuffix(IN_FLIGHT)) + line
            shown.setdefault(name, str(colours[at]))
    left = len(shown) - _IN_LEGEND
    entries = [*list(shown.items())[:_IN_LEGEND], ("kernel, loops, iterations", _GREY)]
    entries += [(f"and {left} more", "none")] if left > 0 else []
    legend_below(ax, [Patch(facecolor=colour) for _, colour in entries], [name for name, _ in entries])


def drawn_bars(
    row: Ints, start: Floats, end: Floats, paint: Ints, window: tuple[float, float]
) -> tuple[Ints, Floats, Floats, Ints]:
    """Row, begin, end and paint of the rectangles to draw, for bars that do not overlap within their row.

    window: the times that are seen; others are cut off. Bars of at least two dots stay as they are. Of the
    others, each dot of a row has the paint that takes most of it, where bars take at least half of it;
    neighbouring dots of one paint are one rectangle. So a row has at most DOTS rectangles.
    """
    low, high = window
    dot = max((high - low) / DOTS, 1e-9)
    seen = (end > low) & (start < high)
    row, paint = row[seen], paint[seen]
    start, end = np.maximum(start[seen], low), np.minimum(end[seen], high)
    wide = end - start >= 2 * dot
    fine = ~wide
    rows, begins, ends, paints = _dots(
        row[fine], (start[fine] - low) / dot, (end[fine] - low) / dot, paint[fine]
    )
    return (
        np.concatenate([row[wide], rows]),
        np.concatenate([start[wide], low + dot * begins]),
        np.concatenate([end[wide], low + dot * ends]),
        np.concatenate([paint[wide], paints]),
    )


def _dots(row: Ints, start: Floats, end: Floats, paint: Ints) -> tuple[Ints, Floats, Floats, Ints]:
    """Rectangles of whole dots, for bars of less than two, in dots."""
    first = np.floor(start).astype(np.int64)
    # A bar of less than two dots lies in at most three.
    dots = (first[:, None] + np.arange(3)).ravel()
    cover = np.minimum(end[:, None], first[:, None] + np.arange(1, 4)) - np.maximum(
        start[:, None], first[:, None] + np.arange(3)
    )
    cover, rows, paints = np.maximum(cover.ravel(), 0.0), np.repeat(row, 3), np.repeat(paint, 3)
    part = np.flatnonzero((cover > 0) & (dots < DOTS))
    if not len(part):
        return row[:0], start[:0], end[:0], paint[:0]
    colours = int(paint.max()) + 1
    place = rows[part] * DOTS + dots[part]
    key, number = np.unique(place * colours + paints[part], return_inverse=True)
    covered = np.bincount(number, cover[part])
    # Of each dot the paint that takes most of it: the last of the dot's, in order of what they take.
    order = np.lexsort((covered, key // colours))
    at, paint_of = (key // colours)[order], (key % colours)[order]
    last = np.append(at[1:] != at[:-1], True)
    whole = np.bincount(np.cumsum(np.append(True, at[1:] != at[:-1])) - 1, covered[order])
    at, paint_of = at[last][whole >= 0.5], paint_of[last][whole >= 0.5]
    if not len(at):
        return row[:0], start[:0], end[:0], paint[:0]
    same = (at[1:] == at[:-1] + 1) & (paint_of[1:] == paint_of[:-1]) & (at[1:] % DOTS != 0)
    opening = np.flatnonzero(np.append(True, ~same))
    closing = np.append(opening[1:], len(at)) - 1
    begins = (at[opening] % DOTS).astype(np.float64)
    return at[opening] // DOTS, begins, (at[closing] % DOTS + 1).astype(np.float64), paint_of[opening]
