"""Bars as so few rectangles as a reader can tell apart."""

from __future__ import annotations

from typing import Final

import numpy as np

from profscope.analysis.span_rows import Floats, Ints

__all__ = ["DOTS", "drawn_bars"]

DOTS: Final = 1600
"""Across a figure's width: what is narrower than one of them is drawn as a part of it."""


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
