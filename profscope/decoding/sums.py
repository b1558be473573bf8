"""What warps that kept sums say of one site: how often it ran, for how long in all, and for how long at most.

Nothing is searched for: each number has its place in a warp's one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Span

__all__ = ["SiteValues", "site_values"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SiteValues:
    """What warps kept of one site, in arrays of one shape. count: None where it is `span.times` for every
    warp that ran the section; longest_cycles: None where it was not kept. left_out: the warps of which a site
    of asynchronous work tells nothing, None for other sites: then the rest is 0."""

    count: Ints | None
    total_cycles: npt.NDArray[Any]
    longest_cycles: npt.NDArray[np.uint32] | None
    left_out: npt.NDArray[np.bool_] | None = None


def site_values(
    columns: npt.NDArray[np.uint32], spans: Sequence[Span], at: int, cycles: npt.NDArray[Any]
) -> SiteValues:
    """Of one of a section's spans. columns: the words of the section's rows, shape (columns, ...); cycles:
    how long each row's CTA ran, of the shape of one column, or one that broadcasts to it."""
    span = spans[at]
    if span.left >= 0:
        return _in_flight(columns, spans, span, cycles)
    longest = None if span.longest < 0 else columns[span.longest]
    return SiteValues(_count(columns, span), columns[span.total], longest)


def _count(columns: npt.NDArray[np.uint32], span: Span) -> Ints | None:
    """As `SiteValues.count`."""
    return None if span.count < 0 else columns[span.count].astype(np.int64) * span.times


def _in_flight(
    columns: npt.NDArray[np.uint32], spans: Sequence[Span], span: Span, cycles: npt.NDArray[Any]
) -> SiteValues:
    """Asynchronous work: nothing is told where some was under way at the end, or 32 bits may not have
    held."""
    count = np.zeros(columns.shape[1:], np.int64)
    for start in (spans[number] for number in span.starts):
        started = _count(columns, start)
        count += start.times if started is None else started
    most = span.most if span.most else count
    left_out = (columns[span.left] != 0) | (most * cycles >= 1 << 32)
    return SiteValues(count * ~left_out, columns[span.total] * ~left_out, None, left_out)
