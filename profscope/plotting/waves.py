"""How a launch fills the device: wave by wave, and its tail."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from profscope.analysis.launch_shape import Shape, shape_of
from profscope.analysis.span_rows import Floats, Ints
from profscope.errors import DrawError
from profscope.plotting.canvas import DIM, INK, LINE, axes_for, label_time, short_name, title, unit_scale
from profscope.plotting.heatmap import sms_of
from profscope.plotting.picked import Picked, picked
from profscope.schema import Tables
from profscope.traces.html.figures import count_text

__all__ = ["wave_of_cta", "waves"]

_SHADES: Final = ("#2f6db5", "#8fbbe8", "#1d8a6f", "#8fd3bf", "#b4530a", "#f0b07a")
_LAST: Final = "#d1495b"
_MOST: Final = 6
"""Waves with shades of their own: beyond, two shades take turns."""
_POINTS: Final = 1200
_EMPTY: Final = "empty after the last CTA began"
_ABOVE: Final = 1.18  # of the axis, in slots


def waves(tables: Tables, launch: int | None, kernel: str | None, *, ax: Axes | None) -> Figure:
    """See `Plots.waves`."""
    chosen = picked(tables, launch, kernel, "prof.plot.waves()")
    if not chosen.is_whole:
        raise DrawError(
            f"prof.plot.waves() needs all CTAs of the launch: {chosen.part} (session(ctas=None) records all)"
        )
    ctas = chosen.ctas
    if (ctas.sm < 0).any():
        raise DrawError("prof.plot.waves(): nobody says which SM a CTA ran on")
    shape = _shape(chosen)
    wave = wave_of_cta(ctas.sm, ctas.start, shape.per_sm)
    end = ctas.start + ctas.duration
    longest = chosen.longest
    scale, unit = unit_scale(longest, chosen.unit)
    edges = np.unique(np.concatenate([np.linspace(0, longest, _POINTS), [0.0]]))
    count = int(wave.max()) + 1
    layers = [_running(edges, ctas.start[wave == each], end[wave == each]) for each in range(count)]
    figure, ax = axes_for(ax, 8.0, 3.4)
    ax.stackplot(edges / scale, layers, colors=_colours(count), linewidth=0, step="post")
    ax.axhline(shape.slots, color=INK, linewidth=0.9, linestyle=(0, (5, 3)))
    ax.annotate(
        f"{shape.slots:,} slots: {shape.slots // shape.per_sm:,} SMs x {shape.per_sm}",
        (longest / scale, shape.slots), xytext=(-2, 3), textcoords="offset points", ha="right", va="bottom",
        fontsize=8, color=INK,
    )  # fmt: skip
    tail = float(ctas.start.max()) / scale
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
    _legend(ax, wave, count)
    said = f"{short_name(chosen.kernel)}, launch {chosen.launch}: {len(ctas):,} CTAs, {shape.waves:.2f} waves"
    title(ax, said, _note(shape, sms_of(chosen)), emulated=tables.emulated)
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


def _shape(chosen: Picked) -> Shape:
    """As `prof.findings()` and `prof.report()` have it, of this launch."""
    ctas = chosen.ctas
    df = chosen.tables.df
    end = (ctas.start + ctas.duration).astype(np.int64)
    cycle = df["start_cycle"].to_numpy()
    begins = np.minimum.reduceat(cycle, ctas.first)
    ends = np.maximum.reduceat(
        np.where((df["kind"] != "async").to_numpy(), cycle + df["duration_cycles"].to_numpy(), cycle),
        ctas.first,
    )
    table = pd.DataFrame(
        {
            "launch": 0,
            "sm": ctas.sm,
            "start_ns": ctas.start,
            "end_ns": end,
            "start_cycle": begins,
            "cycles": ends - begins,
        }
    )
    return shape_of(table, sms_of(chosen))


def _running(edges: Floats, start: Ints, end: Ints) -> Floats:
    """How many run at each moment."""
    begun = np.searchsorted(np.sort(start), edges, "right")
    return (begun - np.searchsorted(np.sort(end), edges, "right")).astype(np.float64)


def _colours(count: int) -> list[str]:
    if count <= _MOST:
        return list(_SHADES[:count])
    return [*(_SHADES[each % 2] for each in range(count - 1)), _LAST]


def _legend(ax: Axes, wave: Ints, count: int) -> None:
    sizes = np.bincount(wave, minlength=count)
    colours = _colours(count)
    if count <= _MOST:
        entries = [
            (f"wave {each + 1}: {count_text(int(sizes[each]), 'CTA')}", colours[each])
            for each in range(count)
        ]
    else:
        entries = [("waves in turn", colours[0]), ("", colours[1])]
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
    """What the launch loses, as in the findings `idle-sms`, `tail` and `load-imbalance`."""
    if shape.sms < sms:
        return f"{sms - shape.sms:,} of {sms:,} SMs ran no CTA"
    parts = [("tail", shape.tail_pct), ("load imbalance", shape.imbalance_pct)]
    return ", ".join(f"{name} {value:.0f} % of the launch" for name, value in parts if value >= 1)
