"""How a launch fills the device: wave by wave, its tail, and how busy each SM was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from profscope.analysis.kernels.devices import max_resident_ctas, sm_count_of
from profscope.analysis.spans.ctas import Shape, every_cta, shape_of
from profscope.analysis.spans.rows import Floats, Ints
from profscope.errors import DrawError
from profscope.plotting.canvas import (
    DIM,
    INK,
    LINE,
    Picked,
    axes_for,
    label_time,
    picked,
    short_name,
    title,
    unit_scale,
)
from profscope.schema import Tables
from profscope.traces.html.figures import count_text
from profscope.traces.html.spans import times

__all__ = ["at_once", "heatmap", "wave_of_cta", "waves"]

_SHADES: Final = ("#2f6db5", "#8fbbe8", "#1d8a6f", "#8fd3bf", "#b4530a", "#f0b07a")
_LAST: Final = "#d1495b"
_MOST: Final = 6
"""Waves with shades of their own: beyond, two shades take turns."""
_MOST_BANDS: Final = 150
"""More would be narrower than a dot of print: beyond, several waves share a shade."""
_POINTS: Final = 1200
_EMPTY: Final = "empty after the last CTA began"
_ABOVE: Final = 1.18  # of the axis, in slots


def waves(tables: Tables, launch: int | None, kernels: str | None, *, ax: Axes | None) -> Figure:
    """See `Plots.waves`."""
    chosen = picked(tables, launch, kernels, "prof.plot.waves()")
    ctas = every_cta(chosen.tables, chosen.tables.launches)
    if ctas is None:
        raise DrawError(
            f"prof.plot.waves() needs all CTAs of the launch: {chosen.part} (session(ctas=None) records all)"
        )
    sm = ctas["sm"].to_numpy(np.int64)
    if (sm < 0).any():
        raise DrawError("prof.plot.waves(): nobody says which SM a CTA ran on")
    as_spans = ctas.assign(duration_ns=ctas["end_ns"] - ctas["start_ns"], duration_cycles=ctas["cycles"])
    start, duration = times(replace(chosen.tables, df=as_spans))
    end = start + duration
    shape = _shape(chosen, ctas.assign(start_ns=start, end_ns=end))
    each = shape.room or shape.per_sm
    wave = wave_of_cta(sm, start, each)
    longest = max(1.0, float(end.max()))
    scale, unit = unit_scale(longest, chosen.unit)
    edges = np.unique(np.concatenate([np.linspace(0, longest, _POINTS), [0.0]]))
    count = int(wave.max()) + 1
    band, in_band = _bands(wave, count)
    layers = _running(edges, start, end, band)
    figure, ax = axes_for(ax, 8.0, 3.4)
    ax.stackplot(edges / scale, layers, colors=_colours(len(layers)), linewidth=0, step="post")
    ran = "" if sm_count_of(tables.metadata) else " that ran one"
    ax.axhline(shape.slots, color=INK, linewidth=0.9, linestyle=(0, (5, 3)))
    ax.annotate(
        f"{shape.slots:,} slots: {count_text(shape.slots // each, 'SM')}{ran} x {each}",
        (longest / scale, shape.slots), xytext=(-2, 3), textcoords="offset points", ha="right", va="bottom",
        fontsize=8, color=INK,
    )  # fmt: skip
    tail = float(start.max()) / scale
    ax.fill_between(
        [tail, longest / scale], shape.slots, facecolor="none", edgecolor=LINE, hatch="////", linewidth=0,
        zorder=0,
    )  # fmt: skip
    ax.axvline(tail, ymax=1 / _ABOVE, color=DIM, linewidth=0.8)
    ax.set_xlim(0, longest / scale)
    ax.set_ylim(0, _ABOVE * shape.slots)
    ax.set_ylabel("CTAs at once", fontsize=9, color=INK)
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    label_time(ax, unit)
    _legend(ax, wave, count, in_band)
    said = f"{short_name(chosen.kernel)}, launch {chosen.launch}: {count_text(len(ctas), 'CTA')}"
    title(
        ax,
        f"{said}, {shape.waves:.2f} waves",
        _note(shape, sm_count_of(tables.metadata)),
        emulated=tables.emulated,
    )
    return figure


def wave_of_cta(sm: Ints, start: Ints, per_sm: int) -> Ints:
    """By CTA its wave, from 0: how many began on its SM before it, over how many that runs at once."""
    order = np.lexsort((start, sm))
    change = np.append(True, sm[order][1:] != sm[order][:-1])
    first = np.flatnonzero(change)
    rank = np.arange(len(sm)) - np.repeat(first, np.diff(first, append=len(sm)))
    wave = np.empty(len(sm), np.int64)
    wave[order] = rank // per_sm
    return wave


def _shape(chosen: Picked, ctas: pd.DataFrame) -> Shape:
    """As `prof.findings()` and `prof.report()` have it, of this launch."""
    metadata = chosen.tables.metadata
    (variant,) = chosen.tables.launches["variant"].unique().tolist()
    return shape_of(ctas, sm_count_of(metadata), max_resident_ctas(metadata, chosen.kernel, variant))


def _bands(wave: Ints, count: int) -> tuple[Ints, int]:
    """By CTA the band that it is drawn in, from 0, and how many waves are in a band: one, or as many as leave
    no more than `_MOST_BANDS`. The last wave is a band of its own."""
    size = -(-count // _MOST_BANDS)
    return np.where(wave == count - 1, -(-(count - 1) // size), wave // size), size


def _running(edges: Floats, start: Ints, end: Ints, band: Ints) -> Floats:
    """How many CTAs of each band run at each edge; float64 of shape (bands, edges)."""
    bands, width = int(band.max()) + 1, len(edges) + 1
    change = np.zeros(bands * width)
    for moment, by in ((start, 1), (end, -1)):
        at = band * width + np.searchsorted(edges, moment)
        change += by * np.bincount(at, minlength=len(change))
    return np.asarray(np.cumsum(change.reshape(bands, width), axis=1)[:, :-1])


def _colours(count: int) -> list[str]:
    if count <= _MOST:
        return list(_SHADES[:count])
    return [*(_SHADES[each % 2] for each in range(count - 1)), _LAST]


def _legend(ax: Axes, wave: Ints, count: int, in_band: int) -> None:
    sizes = np.bincount(wave, minlength=count)
    colours = _colours(count)
    turns = "waves in turn" if in_band == 1 else f"waves in turn, {in_band} by {in_band}"
    if count <= _MOST:
        entries = [
            (f"wave {each + 1}: {count_text(int(sizes[each]), 'CTA')}", colours[each])
            for each in range(count)
        ]
    else:
        entries = [(turns, colours[0]), ("", colours[1])]
        entries.append((f"the last, wave {count}: {count_text(int(sizes[-1]), 'CTA')}", colours[-1]))
    handles = [Patch(facecolor=colour, label=text or " ") for text, colour in entries]
    handles.append(
        Patch(
            facecolor="none",
            edgecolor=LINE,
            hatch="////",
            linewidth=0,
            label=_EMPTY,
        )
    )
    ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        fontsize=8,
        frameon=False,
        borderaxespad=0,
    )


def _note(shape: Shape, sms: int) -> str:
    """What the launch loses, by when its CTAs ran.

    sms: those of the device; 0 where nobody says.
    """
    if shape.sms < sms:
        return f"{sms - shape.sms:,} of {sms:,} SMs ran no CTA"
    parts = [("tail", shape.tail_pct), ("load imbalance", shape.imbalance_pct)]
    return ", ".join(f"{name} {value:.0f} % of the launch" for name, value in parts if value >= 1)


_BINS: Final = 320
# White where nothing ran; in one hue, darker with each CTA, so that it is read without seeing colours.
_SM_SHADES: Final = LinearSegmentedColormap.from_list("ctas", ["#ffffff", "#c9ddf5", "#5b94d6", "#123f7c"])


def heatmap(tables: Tables, launch: int | None, kernels: str | None, *, ax: Axes | None) -> Figure:
    """See `Plots.heatmap`."""
    chosen = picked(tables, launch, kernels, "prof.plot.heatmap()")
    ctas = chosen.ctas
    if (ctas.sm < 0).all():
        raise DrawError("prof.plot.heatmap(): nobody says which SM a CTA ran on")
    longest = chosen.longest
    scale, unit = unit_scale(longest, chosen.unit)
    cells = at_once(chosen, longest)
    sms = len(cells)
    figure, ax = axes_for(ax, 8.0, 1.6 + min(3.4, 0.6 + 0.03 * sms))
    image = ax.imshow(
        cells, aspect="auto", origin="lower", interpolation="nearest", cmap=_SM_SHADES, vmin=0,
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
