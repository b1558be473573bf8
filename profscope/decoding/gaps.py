"""Time of a warp that no record covers, since a ring has overwritten the rows: spans of kind "gap".

A ring keeps the newest rows of a loop. The time before them, from the last intact record to the next one, is
unknown; without a span of its own it would look like the loop's. Both records have their places among a
warp's words, so a gap is a span like any other, with the clocks of its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.decoding.patterns import Lost, Patterns
from profscope.instrument_passes.manifest import Span

__all__ = ["KIND", "NAME", "with_gaps"]

Ints = npt.NDArray[np.int64]

KIND: Final = "gap"
NAME: Final = "not recorded"


def with_gaps(patterns: Patterns) -> Patterns:
    """The patterns of a section with a span wherever rows are gone, in the span around their loop.

    Where rows of several loops are gone and no record lies between them, they share one.
    """
    if not patterns.lost:
        return patterns
    sites, number, of_lost = _sites(patterns.sites, patterns.lost)
    around, at, site = _distinct(patterns, of_lost)
    pattern = np.repeat(np.arange(len(patterns.first) - 1), np.diff(patterns.first))  # of each span
    above = np.where(patterns.parent < 0, -1, patterns.parent + patterns.first[pattern])
    # Where spans and gaps go: a gap stands before the span at its place, and behind the pattern's others.
    spans = np.arange(len(pattern))
    moved, new = spans + np.searchsorted(at, spans, side="right"), at + np.arange(len(at))
    first = patterns.first + np.searchsorted(at, patterns.first, side="right")

    def woven(old: npt.NDArray[Any], of_gaps: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        column = np.empty(len(old) + len(of_gaps), np.int32)
        column[moved], column[new] = old, of_gaps
        return column

    return replace(
        patterns,
        sites=sites,
        first=first,
        site=woven(number[patterns.site], site),
        begin=woven(patterns.begin, _begin(patterns, around, at, above)),
        end=woven(patterns.end, _end(patterns, around, at, above)),
        iteration=woven(patterns.iteration, patterns.iteration[around]),
        parent=woven(
            np.where(above < 0, -1, moved[above] - first[pattern]), moved[around] - first[pattern[around]]
        ),
        depth=woven(patterns.depth, patterns.depth[around] + 1),
        idle=moved[patterns.idle],
        values=[
            replace(values, span=_moved(values.span, values.first, patterns.first, moved, first))
            for values in patterns.values
        ],
        lost=(),
    )


def _sites(old: Sequence[Span], lost: Sequence[Lost]) -> tuple[tuple[Span, ...], Ints, list[int]]:
    """The sites with one for the gaps of each loop, before those in the loop: they are numbered in program
    order. Also the new number of each old one, and those of the gaps."""
    sites: list[Span] = []
    number, of_lost = np.empty(len(old), np.int64), [0] * len(lost)
    for index, site in enumerate(old):
        for at, each in enumerate(lost):
            if each.before == index:
                of_lost[at] = len(sites)
                sites.append(_gap(old[each.around]))
        number[index] = len(sites)
        sites.append(site)
    return tuple(sites), number, of_lost


def _gap(around: Span) -> Span:
    return replace(
        around, kind=KIND, name=NAME, op="", bytes=0, flops=0, payloads=(), part="", ran=-1, stage=""
    )  # fmt: skip


def _distinct(patterns: Patterns, of_lost: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Of each gap the position of the span around it and of the span it comes before, and its site; in order
    of position, inner ones first."""
    around = np.concatenate([lost.span for lost in patterns.lost])
    at = np.concatenate([lost.at for lost in patterns.lost])
    site = np.repeat(of_lost, [len(lost.at) for lost in patterns.lost])
    order = np.lexsort((site, -patterns.depth[around], at))
    around, at, site = around[order], at[order], site[order]
    distinct = np.ones(len(at), bool)
    distinct[1:] = (at[1:] != at[:-1]) | (around[1:] != around[:-1])
    return around[distinct], at[distinct], site[distinct]


def _begin(patterns: Patterns, around: Ints, at: Ints, above: Ints) -> npt.NDArray[np.int32]:
    """Place of the last clock before each gap: the end of its sibling, or the begin of the span around it."""
    last = at - 1
    is_first = last == around
    for _ in range(int(patterns.depth.max(initial=0))):
        last = np.where(is_first | (above[last] == around), last, above[last])
    return np.where(is_first, patterns.begin[around], patterns.end[last])


def _end(patterns: Patterns, around: Ints, at: Ints, above: Ints) -> npt.NDArray[np.int32]:
    """Place of the next clock behind each gap: the begin of its sibling, or the end of the span around it."""
    following = np.minimum(at, len(above) - 1)
    has_sibling = (at < len(above)) & (above[following] == around)
    return np.where(has_sibling, patterns.begin[following], patterns.end[around])


def _moved(
    span: npt.NDArray[np.int32], of_pattern: Ints, old: Ints, moved: Ints, new: Ints
) -> npt.NDArray[np.int32]:
    """Positions in patterns after the move. of_pattern: per pattern its first entry in `span`; old, new: its
    first span among all."""
    sizes = np.diff(of_pattern)
    place: npt.NDArray[np.int32] = moved[np.repeat(old[:-1], sizes) + span] - np.repeat(new[:-1], sizes)
    return place.astype(np.int32)
