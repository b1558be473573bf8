"""Kernels, loops and lines under the roof of their device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from profscope.analysis.kernels.devices import Peak, peak_of
from profscope.analysis.kernels.roof_rows import roof_table
from profscope.errors import DrawError
from profscope.plotting.canvas import INK, LINE, axes_for, legend_below, of_kernels, short_name, title
from profscope.schema import Tables

__all__ = ["roofs"]

_WHAT: Final = "prof.plot.roofline()"
_MOST: Final = 12
_MARKERS: Final = {"kernel": ("*", 150.0), "loop": ("s", 46.0), "line": ("o", 34.0)}
_COLOURS: Final = ("#2f6db5", "#b4530a", "#1d8a6f", "#8a3ab9", "#c2185b", "#6b7280")
_BOUND: Final = {"tensor cores": "the peak of dots", "memory": "the peak of DRAM"}
_BITS: Final = {8: "8-bit", 16: "16-bit", 32: "tf32"}


def roofs(tables: Tables, kernels: str | None, *, ax: Axes | None) -> Figure:
    """See `Plots.roofline`."""
    if tables.emulated:
        raise DrawError(f"{_WHAT}: the emulator has no rates, since its cycles are not time")
    rows = roof_table(tables)
    missing = rows.attrs["not_measured"]
    if kernels is not None:
        own = set(of_kernels(tables.launches, kernels, _WHAT)["kernel"])
        rows = rows[rows["kernel"].isin(own)]
        missing = [text for text in missing if text.partition(":")[0] in own]
    if rows["kernel"].nunique() > 1:
        rows = rows[rows["of"] == "kernel"]
    points = rows[(rows["tflop_per_s"] > 0) & (rows["flops_per_byte"] > 0)]
    if points.empty:
        raise DrawError(f"{_WHAT}: nobody counted both bytes and flops: {_why(rows, missing)}")
    left_out = max(0, len(points) - _MOST)
    points = points[:_MOST]
    peak = peak_of(tables.metadata)
    figure, ax = axes_for(ax, 8.0, 4.4)
    ax.set_xscale("log")
    ax.set_yscale("log")
    _limits(ax, points, peak)
    if peak is not None:
        _roof(ax, peak, points)
    _points(ax, points)
    ax.grid(which="major", color=LINE, linewidth=0.5, zorder=0)
    ax.set_xlabel("flops per byte of global memory", fontsize=9, color=INK)
    ax.set_ylabel("TFLOP/s", fontsize=9, color=INK)
    names = points["kernel"].unique()
    said = short_name(str(names[0])) if len(names) == 1 else f"{len(names)} kernels"
    where = "" if peak is None else f", {tables.metadata['device']['name']}"
    title(ax, f"Roofline of {said}{where}", _note(points, peak, left_out))
    return figure


def _why(rows: pd.DataFrame, missing: list[str]) -> str:
    """The one reason why there is no point: the first that is about bytes or flops."""
    if len(rows) and not (rows["flops"] > 0).any():
        return "only dots count as flops, and no dot was recorded"
    left_out = set(rows.loc[rows["flops_per_byte"].notna(), "kernel"])
    own = [text for text in missing if text.partition(": ")[0] not in left_out]
    return own[0] if own else "only dots count as flops, and no dot with known bytes was recorded"


def _note(points: pd.DataFrame, peak: Peak | None, left_out: int) -> str:
    counted = "bytes by the types of ops, caches or not"
    parts = [counted, "no peaks of this device are known" if peak is None else f"peaks: {peak.source}"]
    return "; ".join(parts + ([f"{left_out} more are not drawn"] if left_out else []))


def _limits(ax: Axes, points: pd.DataFrame, peak: Peak | None) -> None:
    x, y = points["flops_per_byte"], points["tflop_per_s"]
    high = max(y.max(), 0.0 if peak is None else max(_tops(peak, points).values()))
    ridge = 0.0 if peak is None else 1e3 * high / peak.memory_gb_per_s
    ax.set_xlim(x.min() / 6, max(x.max(), ridge) * 6)
    ax.set_ylim(y.min() / 6, high * 2.5)


def _tops(peak: Peak, points: pd.DataFrame) -> dict[int, float]:
    """The peaks of the tensor cores that points are held against, by bits; that of 16 where none is."""
    bound = points[(points["bound"] == "tensor cores") & (points["peak_pct"] > 0)]
    reached = (100 * bound["tflop_per_s"] / bound["peak_pct"]).tolist()
    own = {
        bits: top for bits, top in peak.tflop_per_s.items() if any(np.isclose(top, each) for each in reached)
    }
    return own or {16: peak.tflop_per_s[16]}


def _roof(ax: Axes, peak: Peak, points: pd.DataFrame) -> None:
    low, high = ax.get_xlim()
    slope = peak.memory_gb_per_s / 1e3
    tops = _tops(peak, points)
    most = max(tops.values())
    ax.plot([low, most / slope], [low * slope, most], color=INK, linewidth=1.3, zorder=2)
    for bits, top in tops.items():
        ax.plot([top / slope, high], [top, top], color=INK, linewidth=1.3, zorder=2)
        said = f"{_BITS[bits]} dots: {top:,.0f} TFLOP/s"
        ax.annotate(
            said, (high, top), xytext=(-2, 3), textcoords="offset points", ha="right", fontsize=8, color=INK
        )
    # Along the slope, where it is seen: at the height of a third of the axis above its foot.
    foot = max(low * slope, ax.get_ylim()[0])
    y = foot * (most / foot) ** 0.45
    ax.annotate(
        f"DRAM: {peak.memory_gb_per_s:,.0f} GB/s ", (y / slope, y), xytext=(-4, 2),
        textcoords="offset points", ha="right", va="bottom", fontsize=8, color=INK,
    )  # fmt: skip


def _points(ax: Axes, points: pd.DataFrame) -> None:
    handles, names = [], []
    for number, row in enumerate(points.to_dict("records")):
        marker, size = _MARKERS[str(row["of"])]
        colour = _COLOURS[number % len(_COLOURS)]
        ax.scatter(
            [row["flops_per_byte"]], [row["tflop_per_s"]], marker=marker, s=size, zorder=3, linewidths=1.4,
            facecolors="white", edgecolors=colour,
        )  # fmt: skip
        handles.append(Line2D([], [], linestyle="", marker=marker, color=colour, markerfacecolor="white"))
        names.append(_said(row))
    legend_below(ax, handles, names, columns=2)


def _said(row: dict[Any, Any]) -> str:
    name = short_name(row["scope"])
    place = f", line {row['line']}" if row["line"] and row["of"] == "line" else ""
    reached = "" if pd.isna(row["peak_pct"]) else f", {row['peak_pct']:.0f} % of {_BOUND[row['bound']]}"
    return f"{name}{place}: {row['tflop_per_s']:,.3g} TFLOP/s{reached}"
