"""A figure: the launch it shows, its axes, its letters, its axis of time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from profscope.analysis.answers import rows_of_kernels
from profscope.analysis.spans.rows import Ints
from profscope.analysis.texts import clipped, plain
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.traces.html.spans import Ctas, ctas_of, times

__all__ = [
    "INK",
    "Drawing",
    "Picked",
    "axes_for",
    "label_time",
    "legend_below",
    "listed",
    "picked",
    "set_text",
    "short_name",
    "title",
    "unit_scale",
]

INK: Final = "#1b2230"
_DIM: Final = "#5a6474"
_DPI: Final = 110
_LETTERS: Final = 48
_BELOW: Final = 0.45  # inches from the axes to the legend, for the axis of time
_SCALES: Final = {
    "ns": ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")),
    "cycles": ((1.0, "cycles"), (1e3, "thousand cycles"), (1e6, "million cycles"), (1e9, "billion cycles")),
}


class Drawing(Figure):
    """A matplotlib Figure that a notebook shows, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()


def axes_for(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The axes to draw into and their figure; a new one of this size in inches where none are given."""
    if ax is not None:
        figure = ax.get_figure(root=True)
        assert figure is not None
        return figure, ax
    figure = Drawing(figsize=(width, height), dpi=_DPI, layout="constrained", facecolor="white")
    ax = figure.add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for spine in ax.spines.values():
        spine.set_color(_DIM)
    ax.tick_params(colors=INK, labelsize=8, color=_DIM)
    return figure, ax


def set_text(text: Text, said: str) -> None:
    """Put words there as they are: a name may hold what matplotlib takes for a formula."""
    text.set_parse_math(False)
    text.set_text(plain(said).replace("\n", " "))


def short_name(name: object) -> str:
    """A name that may be long: kernels of torch.compile's have hundreds of letters."""
    return clipped(str(name), _LETTERS)


def title(ax: Axes, said: str, *, emulated: bool) -> None:
    """What the figure is of; above it, smaller, whether it is emulated."""
    set_text(ax.set_title("", loc="left", fontsize=10, color=INK, pad=16 if emulated else 6), said)
    if emulated:
        small = ax.annotate(
            "", (0, 1), xytext=(0, 4), xycoords="axes fraction", textcoords="offset points", fontsize=8,
            color=_DIM, va="bottom", ha="left", annotation_clip=False,
        )  # fmt: skip
        set_text(small, "emulated: cycles of a cost model")


def unit_scale(longest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit's name, for times of up to `longest`."""
    steps = _SCALES[unit]
    return next((step for step in reversed(steps) if longest >= 2 * step[0]), steps[0])


def label_time(ax: Axes, unit: str) -> None:
    """Label the axis of time; `unit` is that of its numbers."""
    ax.set_xlabel(f"time since the launch began ({unit})", fontsize=9, color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def legend_below(ax: Axes, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """A legend under the axis of time."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    # In inches: the axes get their height when the figure is laid out.
    below = ax.transAxes + ScaledTranslation(0, -_BELOW, figure.dpi_scale_trans)
    # A label of its own would be left out where a name begins with an underscore.
    legend = ax.legend(
        handles, [" "] * len(names), loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below,
        ncols=4, fontsize=8, frameon=False, handlelength=1.2, borderaxespad=0, labelcolor=INK,
        columnspacing=1.6,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), names, strict=True):
        set_text(text, name)


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


def picked(tables: Tables, launch: int | None, kernels: str | None, what: str) -> Picked:
    """The launch that is asked for, or else the kernel's of median length; see `Plots`. what: for errors.

    Raises DrawError if there is none with spans, OptionError for what `kernels` cannot be.
    """
    launches = _with_spans(tables, what)
    if kernels is not None:
        launches = rows_of_kernels(launches, kernels, launches["kernel"])
    if launch is not None:
        own = launches[launches["launch"] == launch]
        if own.empty:
            whose, known = "" if kernels is None else f" of {kernels}", listed(launches["launch"].tolist())
            raise DrawError(f"{what}: no launch {launch}{whose} has spans; there are {known}")
    else:
        own = _median(_heaviest(launches))
    number = int(own["launch"].iloc[0])
    first, last = np.searchsorted(tables.df["launch"].to_numpy(), [number, number + 1])
    alone = replace(tables, df=tables.df.iloc[first:last], launches=own.reset_index(drop=True))
    return Picked(str(own["kernel"].iloc[0]), number, alone, *times(alone))


def listed(values: list[int]) -> str:
    """The first of them, and how many more there are."""
    named = ", ".join(map(str, values[:_NAMED]))
    return named + (f" and {len(values) - _NAMED:,} more" if len(values) > _NAMED else "")


def _with_spans(tables: Tables, what: str) -> pd.DataFrame:
    launches = tables.launches
    own = launches[launches["launch"].isin(np.unique(tables.df["launch"].to_numpy()))]
    if len(own):
        return own
    raise DrawError(f"{what} needs spans, and this profile has none")


def _heaviest(launches: pd.DataFrame) -> pd.DataFrame:
    took = (launches["end_ns"] - launches["start_ns"]).groupby(launches["kernel"], sort=False).sum()
    return launches[launches["kernel"] == took.idxmax()]


def _median(launches: pd.DataFrame) -> pd.DataFrame:
    """The launch of median length, as a table of one row."""
    warm = launches[~launches["cold"]]
    own = warm if len(warm) else launches
    order = np.argsort((own["end_ns"] - own["start_ns"]).to_numpy(), kind="stable")
    return own.iloc[order[(len(order) - 1) // 2] :][:1]
