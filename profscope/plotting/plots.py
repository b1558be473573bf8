"""`prof.plot`: the warps of one CTA over time, as a matplotlib figure. matplotlib is imported to draw it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.answers import rows_of_kernels
from profscope.analysis.scope_colours import FRAMES, IN_FLIGHT, site_colours
from profscope.analysis.spans.rows import Floats, Ints, sites
from profscope.analysis.texts import clipped, plain
from profscope.errors import DrawError
from profscope.installed import require
from profscope.schema import Tables
from profscope.traces.html.spans import ctas_of, times
from profscope.traces.tracks import interval_slots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plots"]

_ASKED: Final = "prof.plot.timeline()"
_FRAME, _OP, _FLIGHT, _APART = 0.2, 1.0, 0.3, 0.4  # heights of rows, and what lies between two warps
_IN_LEGEND: Final = 14
_MOST_LETTERS: Final = 48
_MOST_LISTED: Final = 5


class Plots:
    """Draws a profile as a matplotlib Figure, which shows itself in a notebook."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return "<prof.plot: timeline()>"

    def timeline(
        self,
        cta: int | None = None,
        launch: int | None = None,
        kernels: str | None = None,
        *,
        between: tuple[float, float] | None = None,
    ) -> Figure:
        """The warps of one CTA: a band for each warp, a colour for each scope, as in report.html.

            prof.plot.timeline(cta=3).savefig("cta.svg")

        cta: its number; without it, the launch's CTA of median length. launch: a number of `prof.launches`;
        without it, the kernel's launch of median length, cold ones left aside. kernels: a regular expression;
        if it matches several kernels, the one whose launches took longest is drawn. between: a part of the
        CTA's time, from and to, since the launch began, in ns, or in cycles of the emulator. pyplot is not
        used, and none of its state is changed.

        Thin grey strips are the kernel, its loops and their iterations; narrow bars below a warp are
        asynchronous work that it has in flight. Times are of the GPU, or cycles of the emulator's cost
        model, and then the title says so.

        Raises DrawError if matplotlib is not installed, and if there is no such launch or CTA; OptionError if
        `kernels` matches none.
        """
        require("plot", _ASKED, DrawError)
        chosen = _launch(self._tables, launch, kernels)
        number = int(chosen.launches["launch"].iloc[0])
        start, duration = times(chosen)
        ctas = ctas_of(chosen, start, duration)
        at = _median(ctas.duration) if cta is None else int(np.append(np.flatnonzero(ctas.cta == cta), -1)[0])
        if at < 0:
            known = _listed(np.sort(ctas.cta).tolist())
            raise DrawError(f"{_ASKED}: launch {number} has no spans of CTA {cta}; it has those of {known}")
        rows = slice(int(ctas.first[at]), int(ctas.first[at] + ctas.rows[at]))
        begin, end = start[rows], start[rows] + duration[rows]
        window = _window(between, float(begin.min()), float(max(end.max(), begin.min() + 1)))
        where = f"CTA {int(ctas.cta[at])}" if ctas.cta[at] >= 0 else "spans"
        where += f" on SM {int(ctas.sm[at])}" if ctas.sm[at] >= 0 else ""
        kernel = clipped(str(chosen.launches["kernel"].iloc[0]), _MOST_LETTERS)
        title = f"{kernel}, launch {number}, {where}"
        title += " (emulated: cycles of a cost model)" * chosen.emulated
        known_sites = sites(self._tables.df)[1]
        return _drawn(chosen.df.iloc[rows], begin, end, window, known_sites, title, chosen.emulated)


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
        launch = int(own["launch"].iloc[_median(took[own.index].to_numpy())])
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
    first, last = between or (low, high)
    if not (first < last and first < high and last > low):
        raise DrawError(
            f"{_ASKED}: between={between!r} holds nothing of the CTA's time, {low:,.6g} to {high:,.6g}"
        )
    return first, last


def _bands(df: pd.DataFrame, begin: Ints, end: Ints) -> tuple[Floats, Floats]:
    """By span, its top and its height: for each warp a row for each depth, narrow ones for what is in flight;
    the kernel and its loops are thin."""
    warp, lane = (df[name].to_numpy().astype(np.int64) for name in ("warp", "depth"))
    flight = (df["kind"] == "async").to_numpy()
    deepest = int(lane.max(initial=0))
    # What touches may share a lane.
    lane[flight] = deepest + 1 + interval_slots(warp[flight], begin[flight], end[flight] - 1)
    _, first, row = np.unique(warp * (int(lane.max()) + 1) + lane, return_index=True, return_inverse=True)
    frame = df["kind"].isin(tuple(FRAMES)).to_numpy()
    of_op = np.bincount(row, ~frame) > 0
    height = np.where(flight[first], _FLIGHT, np.where(of_op, _OP, _FRAME))
    apart = np.where(np.diff(warp[first], prepend=warp[first[0]]) != 0, _APART, 0.0)
    top = np.cumsum(height + apart) - height
    return top[row], np.where(frame & ~flight, _FRAME, height[row])


def _drawn(
    df: pd.DataFrame,
    begin: Ints,
    end: Ints,
    window: tuple[float, float],
    known: pd.DataFrame,
    title: str,
    emulated: bool,
) -> Figure:
    """known: the profile's sites, by which scopes have their colours."""
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import EngFormatter, FuncFormatter

    class Drawing(Figure):
        """A matplotlib Figure that a notebook shows, whether or not pyplot was imported there."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    y, height = _bands(df, begin, end)
    site, table = sites(df)
    colours = np.array(site_colours(table, known))
    x0, x1 = np.clip(begin, *window), np.clip(end, *window)
    mark = (df["kind"] == "mark").to_numpy()
    seen = np.flatnonzero((x1 > x0) & ~mark)
    bottom = y + 0.94 * height
    corners = np.stack([x0, y, x0, bottom, x1, bottom, x1, y], axis=1).reshape(-1, 4, 2)[seen]
    figure = Drawing(
        figsize=(10, 1.6 + min(8.0, 0.2 * float((y + height).max()))), layout="constrained", facecolor="white"
    )
    ax = figure.add_subplot()
    # The edge of a bar that is wide enough parts it from the next one.
    edge = np.where((x1 - x0)[seen] > (window[1] - window[0]) / 800, 0.15, 0.0)
    faces = colours[site[seen]]
    ax.add_collection(PolyCollection(list(corners), facecolors=faces, edgecolors="white", linewidths=edge))
    marks = np.flatnonzero(mark & (begin >= window[0]) & (begin <= window[1]))
    ax.vlines(begin[marks], y[marks], (y + height)[marks], color="black", linewidth=0.8)
    ax.set_xlim(*window)
    ax.set_ylim(float((y + height).max()) + 0.2, -0.2)
    names = _warp_names(df)
    own = [(df["warp"] == warp).to_numpy() for warp in names]
    middles = [float(y[each].min() + (y + height)[each].max()) / 2 for each in own]
    ax.set_yticks(middles, list(names.values()), parse_math=False)
    formatter, scale = (EngFormatter("cycles"), 1.0) if emulated else (EngFormatter("s"), 1e-9)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatter(value * scale)))
    ax.set_xlabel("time since the launch began")
    ax.set_title(_named(title), loc="left", fontsize=10, parse_math=False)
    # What is in flight takes no time of the warp, and would come first.
    took = np.where((df["kind"] == "async").to_numpy(), 1e-9, x1 - x0)
    shown = _legend(np.bincount(site, took, len(table)), table, colours)
    legend = figure.legend(
        [Patch(facecolor=colour) for colour in shown.values()], list(shown), loc="outside lower left",
        ncols=4, fontsize=8, frameon=False,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name may hold what matplotlib takes for a formula
    return figure


def _warp_names(df: pd.DataFrame) -> dict[int, str]:
    """What warps are called: in a warp-specialised kernel by the partition that they run, too."""
    roots = df[df["depth"] == 0].drop_duplicates("warp").set_index("warp")["scope"].astype("str").sort_index()
    scopes = {int(warp): scope for warp, scope in zip(roots.index, roots, strict=True)}
    if len(set(scopes.values())) < 2:
        return {warp: f"warp {warp}" for warp in scopes}
    kernel = str(df["kernel"].iloc[0])
    return {
        warp: _named("default" if scope == kernel else scope.replace(f"{kernel} ", "")) + f", warp {warp}"
        for warp, scope in scopes.items()
    }


def _legend(seen: NDArray[Any], table: pd.DataFrame, colours: NDArray[np.str_]) -> dict[str, str]:
    """Scopes and their colours, in order of the time that is seen of them; what is in flight is as what
    started it."""
    shown: dict[str, str] = {}
    for at in np.argsort(-seen, kind="stable").tolist():
        row = table.iloc[at]
        if seen[at] > 0 and row["kind"] not in FRAMES and len(shown) < _IN_LEGEND:
            line = f", line {row['line']}" if row["line"] else ""
            name = clipped(str(row["scope"]).removesuffix(IN_FLIGHT), _MOST_LETTERS) + line
            # A label that begins with an underscore would be left out.
            shown.setdefault(f" {_named(name)}", str(colours[at]))
    return shown


def _named(name: str) -> str:
    return plain(name).replace("\n", " ")
