"""How busy each SM was over the time of a launch."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from profscope.analysis.devices import sm_count_of
from profscope.analysis.span_rows import Floats
from profscope.errors import DrawError
from profscope.plotting.canvas import DIM, INK, axes_for, label_time, short_name, title, unit_scale
from profscope.plotting.picked import Picked, picked
from profscope.schema import Tables
from profscope.traces.html.figures import count_text

__all__ = ["at_once", "heatmap"]

_BINS: Final = 320
# White where nothing ran; in one hue, darker with each CTA, so that it is read without seeing colours.
_SHADES: Final = LinearSegmentedColormap.from_list("ctas", ["#ffffff", "#c9ddf5", "#5b94d6", "#123f7c"])


def heatmap(tables: Tables, launch: int | None, kernel: str | None, *, ax: Axes | None) -> Figure:
    """See `Plots.heatmap`."""
    chosen = picked(tables, launch, kernel, "prof.plot.heatmap()")
    ctas = chosen.ctas
    if (ctas.sm < 0).all():
        raise DrawError("prof.plot.heatmap(): nobody says which SM a CTA ran on")
    longest = chosen.longest
    scale, unit = unit_scale(longest, chosen.unit)
    cells = at_once(chosen, longest)
    sms = len(cells)
    figure, ax = axes_for(ax, 8.0, 1.6 + min(3.4, 0.6 + 0.03 * sms))
    image = ax.imshow(
        cells, aspect="auto", origin="lower", interpolation="nearest", cmap=_SHADES, vmin=0,
        vmax=max(1.0, np.ceil(cells.max() - 1e-6)), extent=(0, longest / scale, -0.5, sms - 0.5),
    )  # fmt: skip
    bar = figure.colorbar(image, ax=ax, pad=0.015, aspect=30)
    bar.set_label("CTAs at once on the SM", fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8, color=DIM)
    bar.outline.set_visible(False)
    for axis in (ax.yaxis, bar.ax.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    ax.set_ylabel("SM", fontsize=9, color=INK)
    label_time(ax, unit)
    idle = int((cells.sum(axis=1) == 0).sum()) if sm_count_of(tables.metadata) else 0
    note = chosen.part or (f"{idle} of {sms} SMs ran no CTA" if idle else "")
    said = f"{short_name(chosen.kernel)}, launch {chosen.launch}: {count_text(len(ctas), 'CTA')}"
    title(ax, said, note, emulated=tables.emulated)
    return figure


def _sms_of(chosen: Picked) -> int:
    """The rows of the map: SMs of the device, or as many as the numbers of those that were seen say."""
    seen = int(chosen.ctas.sm.max()) + 1
    return max(seen, sm_count_of(chosen.tables.metadata) if chosen.is_whole else 0)


def at_once(chosen: Picked, longest: float) -> Floats:
    """CTAs at once, on average, by SM and bin of the launch's time; float64 of shape (SMs, bins)."""
    ctas = chosen.ctas
    own = ctas.sm >= 0
    sm, sms = ctas.sm[own], _sms_of(chosen)
    bins = int(min(_BINS, max(1.0, longest)))
    low = np.clip(ctas.start[own] / longest * bins, 0, bins)
    high = np.clip((ctas.start + ctas.duration)[own] / longest * bins, 0, bins)
    # The integral of a step is a ramp: what has run until each edge, differences of which are the bins'.
    cells = np.zeros((sms, bins + 2))
    for edge, sign in ((low, 1.0), (high, -1.0)):
        first = np.floor(edge).astype(np.int64)
        part = 1 - (edge - first)
        np.add.at(cells, (sm, first), sign * part)
        np.add.at(cells, (sm, first + 1), sign * (1 - part))
    return np.maximum(np.cumsum(cells, axis=1)[:, :bins], 0.0)
