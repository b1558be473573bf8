"""The warps of one CTA over time."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from profscope.analysis.answers import rows_of_kernels
from profscope.analysis.scope_colours import FRAMES, IN_FLIGHT, frame_colour, site_colours
from profscope.analysis.spans.rows import Floats, Ints, sites
from profscope.analysis.texts import clipped, plain
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.traces.html.spans import ctas_of, times
from profscope.traces.tracks import interval_slots

__all__ = ["timeline"]

_ASKED: Final = "prof.plot.timeline()"
_FRAME, _OP, _FLIGHT, _APART = 0.2, 1.0, 0.3, 0.4  # heights of rows, and what lies between two warps
_INCHES: Final = 0.2  # of a row of height 1
_MOST_ROWS: Final = 40.0
_WIDTH: Final = 10.0
_BELOW: Final = 0.45  # inches from the axes to the legend, for the axis of time
_DPI: Final = 110
_IN_LEGEND: Final = 14
_LETTER: Final = 0.0062  # of the width of the axes, for a letter in a bar
_FEWEST_LETTERS, _MOST_NAMES, _MOST_LETTERS = 3, 400, 48
_MOST_LISTED: Final = 5
_INK, _DIM = "#1b2230", "#5a6474"


class _Drawing(Figure):
    """A matplotlib Figure that a notebook shows, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()


@dataclass(frozen=True, eq=False)
class _Bars:
    """The spans of a CTA, one element each: begin and end since the launch began, the row they lie in, and
    the number of their site. y, height: by row, its top; warps: names and middles."""

    begin: Floats
    end: Floats
    row: Ints
    site: Ints
    y: Floats
    height: Floats
    warps: list[tuple[str, float]]


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
    chosen = _launch(tables, launch, kernels)
    number, kernel = int(chosen.launches["launch"].iloc[0]), str(chosen.launches["kernel"].iloc[0])
    start, duration = times(chosen)
    ctas = ctas_of(chosen, start, duration)
    at = _median(ctas.duration) if cta is None else int(np.append(np.flatnonzero(ctas.cta == cta), -1)[0])
    if at < 0:
        known = _listed(np.sort(ctas.cta).tolist())
        raise DrawError(f"{_ASKED}: launch {number} has no spans of CTA {cta}; it has those of {known}")
    rows = slice(int(ctas.first[at]), int(ctas.first[at] + ctas.rows[at]))
    df = chosen.df.iloc[rows]
    site, table = sites(df)
    bars = _bars(df, site, start[rows], duration[rows])
    low, high = _window(between, float(bars.begin.min()), float(bars.end.max()))
    figure, ax = _axes(ax, 1.6 + _INCHES * min(_MOST_ROWS, float((bars.y + bars.height).max())))
    _draw(ax, bars, df, table, np.array(site_colours(table, sites(tables.df)[1])), (low, high))
    formatter, scale = (EngFormatter("cycles"), 1.0) if tables.emulated else (EngFormatter("s"), 1e-9)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatter(value * scale)))
    where = f"CTA {int(ctas.cta[at])}" if ctas.cta[at] >= 0 else "spans"
    where += f" on SM {int(ctas.sm[at])}" if ctas.sm[at] >= 0 else ""
    said = f"{clipped(kernel, _MOST_LETTERS)}, launch {number}, {where}"
    said += " (emulated: cycles of a cost model)" * tables.emulated
    ax.set_title(_named(said), loc="left", fontsize=10, color=_INK, parse_math=False)
    return figure


def _launch(tables: Tables, launch: int | None, kernels: str | None) -> Tables:
    """The launch that is asked for, or else the kernel's of median length, alone; `parent` and `wait` are of
    the whole table."""
    launches = tables.launches
    own = launches[launches["launch"].isin(np.unique(tables.df["launch"].to_numpy()))]
    if not len(own):
        raise DrawError(f"{_ASKED} needs spans, and this profile has none")
    if kernels is not None:
        own = rows_of_kernels(own, kernels, own["kernel"])
    if launch is None:
        took = own["end_ns"] - own["start_ns"]
        own = own[own["kernel"] == took.groupby(own["kernel"], sort=False).sum().idxmax()]
        own = own if own["cold"].all() else own[~own["cold"]]
        at = _median(took[own.index].to_numpy())
        launch = int(own["launch"].iloc[at])
    alone = own[own["launch"] == launch].reset_index(drop=True)
    if alone.empty:
        whose, known = "" if kernels is None else f" of {kernels}", _listed(own["launch"].tolist())
        raise DrawError(f"{_ASKED}: no launch {launch}{whose} has spans; there are {known}")
    first, last = np.searchsorted(tables.df["launch"].to_numpy(), [launch, launch + 1])
    return replace(tables, df=tables.df.iloc[first:last], launches=alone)


def _median(values: Ints) -> int:
    """The place of the median, of an even number the smaller one."""
    return int(np.argsort(values, kind="stable")[(len(values) - 1) // 2])


def _listed(values: list[int]) -> str:
    """The first of them, and how many more there are."""
    named = ", ".join(map(str, values[:_MOST_LISTED]))
    return named + (f" and {len(values) - _MOST_LISTED:,} more" if len(values) > _MOST_LISTED else "")


def _window(between: tuple[float, float] | None, low: float, high: float) -> tuple[float, float]:
    if between is None:
        return low, max(high, low + 1)
    first, last = between
    if not (first < last and first < high and last > low):
        raise DrawError(
            f"{_ASKED}: between={between!r} holds nothing of the CTA's time, {low:,.6g} to {high:,.6g}"
        )
    return first, last


def _axes(ax: Axes | None, height: float) -> tuple[Figure, Axes]:
    """The axes to draw into and their figure; a new one of this height in inches if none are given."""
    if ax is not None:
        figure = ax.get_figure(root=True)
        assert figure is not None
        return figure, ax
    figure = _Drawing(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained", facecolor="white")
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_color(_DIM)
    ax.tick_params(colors=_INK, labelsize=8, color=_DIM)
    return figure, ax


def _bars(df: pd.DataFrame, site: Ints, start: Ints, duration: Ints) -> _Bars:
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
    names = _warp_names(df, warp)
    warps = []
    for each in np.unique(of_warp).tolist():
        own = np.flatnonzero(of_warp == each)
        warps.append((names(each), float(y[own[0]] + y[own[-1]] + height[own[-1]]) / 2))
    begin = start.astype(np.float64)
    return _Bars(begin, begin + duration, row.astype(np.int64), site, y, height, warps)


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


def _warp_names(df: pd.DataFrame, warp: Ints) -> Callable[[int], str]:
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


def _draw(
    ax: Axes,
    bars: _Bars,
    df: pd.DataFrame,
    table: pd.DataFrame,
    colours: NDArray[np.str_],
    window: tuple[float, float],
) -> None:
    """table: the sites, colours: by site."""
    low, high = window
    begin, end = np.clip(bars.begin, low, high), np.clip(bars.end, low, high)
    mark, in_flight = (df["kind"] == "mark").to_numpy(), (df["kind"] == "async").to_numpy()
    seen = np.flatnonzero((end > begin) & ~mark)
    row, x0, x1 = bars.row[seen], begin[seen], end[seen]
    y0, y1 = bars.y[row], bars.y[row] + 0.94 * bars.height[row]
    corners = np.stack([x0, y0, x0, y1, x1, y1, x1, y0], axis=1).reshape(-1, 4, 2)
    # The edge of a bar that is wide enough parts it from the next one.
    edge = np.where(x1 - x0 > (high - low) / 800, 0.15, 0.0)
    faces = colours[bars.site[seen]]
    ax.add_collection(PolyCollection(list(corners), facecolors=faces, edgecolors="white", linewidths=edge))
    marks = np.flatnonzero(mark & (bars.begin >= low) & (bars.begin <= high))
    top = bars.y[bars.row[marks]]
    ax.vlines(bars.begin[marks], top, top + bars.height[bars.row[marks]], color=_INK, linewidth=0.8)
    ax.set_xlim(low, high)
    _write_names(ax, bars, seen, (x0 + x1) / 2, (x1 - x0) / (high - low), table)
    ax.set_ylim(float((bars.y + bars.height).max()) + 0.2, -0.2)
    ticks = [middle for _, middle in bars.warps]
    ax.set_yticks(ticks, [_named(name) for name, _ in bars.warps], parse_math=False)
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.set_xlabel("time since the launch began", fontsize=9, color=_INK)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    # What is in flight takes no time of the warp, and would come first.
    _legend(ax, bars.site, table, np.where(in_flight, 1e-9, end - begin), colours)


def _write_names(
    ax: Axes, bars: _Bars, seen: Ints, middle: Floats, part: Floats, table: pd.DataFrame
) -> None:
    """The scope's name in bars of ops that have room for it, the longest bars first. middle, part: by bar
    that is seen, where it is, and which part of the axis it takes."""
    names = table["scope"].astype("str").tolist()
    order = np.argsort(-part, kind="stable")
    of_ops = bars.height[bars.row[seen[order]]] == _OP
    for at in order[of_ops & (part[order] >= _FEWEST_LETTERS * _LETTER)][:_MOST_NAMES].tolist():
        span = int(seen[at])
        name = names[int(bars.site[span])]
        if len(name) * _LETTER <= part[at]:
            y = bars.y[bars.row[span]] + 0.49 * _OP
            text = ax.text(middle[at], y, _named(name), ha="center", va="center", fontsize=6.5, clip_on=True)
            text.set(color=_INK, parse_math=False)


def _legend(ax: Axes, site: Ints, table: pd.DataFrame, seen: Floats, colours: NDArray[np.str_]) -> None:
    """Under the axis of time, scopes in order of the time that is seen of them; what is in flight is as what
    started it."""
    total = np.bincount(site, seen, len(table))
    shown: dict[str, str] = {}
    for at in np.argsort(-total, kind="stable").tolist():
        row = table.iloc[at]
        if total[at] > 0 and row["kind"] not in FRAMES:
            line = f", line {row['line']}" if row["line"] else ""
            name = clipped(str(row["scope"]).removesuffix(IN_FLIGHT), _MOST_LETTERS) + line
            shown.setdefault(name, str(colours[at]))
    left = len(shown) - _IN_LEGEND
    entries = [*list(shown.items())[:_IN_LEGEND], ("kernel, loops, iterations", frame_colour("loop"))]
    entries += [(f"and {left} more", "none")] if left > 0 else []
    figure = ax.get_figure(root=True)
    assert figure is not None
    # In inches: the axes get their height when the figure is laid out.
    below = ax.transAxes + ScaledTranslation(0, -_BELOW, figure.dpi_scale_trans)
    # A label that begins with an underscore would be left out.
    legend = ax.legend(
        [Patch(facecolor=colour) for _, colour in entries], [f" {_named(name)}" for name, _ in entries],
        loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, ncols=4, fontsize=8, frameon=False,
        handlelength=1.2, borderaxespad=0, labelcolor=_INK, columnspacing=1.6,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name may hold what matplotlib takes for a formula


def _named(name: str) -> str:
    return plain(name).replace("\n", " ")
