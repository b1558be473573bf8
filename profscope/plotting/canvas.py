"""What all figures share: the figure itself, its letters, its axis of time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from profscope.analysis.markup import plain
from profscope.analysis.quantities import clipped

__all__ = [
    "DIM",
    "INK",
    "LINE",
    "Drawing",
    "axes_for",
    "label_time",
    "legend_below",
    "set_text",
    "short_name",
    "title",
    "unit_scale",
]

INK: Final = "#1b2230"
DIM: Final = "#5a6474"
LINE: Final = "#d5d9e0"
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
        spine.set_color(DIM)
    ax.tick_params(colors=INK, labelsize=8, color=DIM)
    return figure, ax


def set_text(text: Text, said: str) -> None:
    """Put words there as they are: a name may hold what matplotlib takes for a formula."""
    text.set_parse_math(False)
    text.set_text(plain(said).replace("\n", " "))


def short_name(name: object) -> str:
    """A name that may be long: kernels of torch.compile's have hundreds of letters."""
    return clipped(str(name), _LETTERS)


def title(ax: Axes, said: str, note: str = "", *, emulated: bool = False) -> None:
    """What the figure is of; behind it, smaller, what holds of it."""
    notes = [*(["emulated: cycles of a cost model"] if emulated else []), *([note] if note else [])]
    set_text(ax.set_title("", loc="left", fontsize=10, color=INK, pad=16 if notes else 6), said)
    if notes:
        small = ax.annotate(
            "", (0, 1), xytext=(0, 4), xycoords="axes fraction", textcoords="offset points", fontsize=8,
            color=DIM, va="bottom", ha="left", annotation_clip=False,
        )  # fmt: skip
        set_text(small, "; ".join(notes))


def unit_scale(longest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit's name, for times of up to `longest`."""
    steps = _SCALES[unit]
    return next((step for step in reversed(steps) if longest >= 2 * step[0]), steps[0])


def label_time(ax: Axes, unit: str, said: str = "time since the launch began") -> None:
    """Label the axis of time; `unit` is that of its numbers."""
    ax.set_xlabel(f"{said} ({unit})", fontsize=9, color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def legend_below(ax: Axes, handles: Sequence[Artist], names: Sequence[str], *, columns: int) -> None:
    """A legend under the axis of time."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    # In inches: the axes get their height when the figure is laid out.
    below = ax.transAxes + ScaledTranslation(0, -_BELOW, figure.dpi_scale_trans)
    # A label of its own would be left out where a name begins with an underscore.
    legend = ax.legend(
        handles, [" "] * len(names), loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below,
        ncols=columns, fontsize=8, frameon=False, handlelength=1.2, borderaxespad=0, labelcolor=INK,
        columnspacing=1.6,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), names, strict=True):
        set_text(text, name)
