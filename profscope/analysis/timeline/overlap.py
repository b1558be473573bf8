"""Overlap of copies, tensor cores and the rest, in a CTA and on an SM."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.answers import Answer, joined_frame
from profscope.analysis.kernels.kernel_analysis import (
    DURATION,
    KernelAnalysis,
    SkippedKernel,
    kernel_analyses,
)
from profscope.analysis.kernels.replay import slices_of
from profscope.analysis.op_labels import hides_copies
from profscope.analysis.spans.rows import Ints, covered, united
from profscope.schema import Tables

__all__ = ["OVERLAP_DTYPES", "overlap", "overlap_of"]

_SMS: Final = 4  # that are looked at
_CTAS: Final = 64
_MOST_SPANS: Final = 60_000  # of the CTAs that are looked at
_MOST_SPANS_OF_SMS: Final = 300_000  # of the SMs, but for the first
_WAITS: Final = ["wait", "barrier"]
_PARTS: Final = ("copies", "dots", "other")
OVERLAP_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "of": "str",
    "count": "int32",
    "cycles": "int64",
    **dict.fromkeys(_PARTS, "float64"),
    **{f"{one}_and_{two}": "float64" for one, two in combinations(_PARTS, 2)},
    "none": "float64",
}

# What is not known where copies were not recorded: nothing tells when they were in flight.
_OF_COPIES: Final = ("copies", "copies_and_dots", "copies_and_other", "none")

_Intervals = tuple[Ints, Ints]
_Bools = NDArray[np.bool_]


def overlap(tables: Tables) -> pd.DataFrame:
    """Two rows per kernel and configuration: concurrent work in a CTA, and on an SM with all its CTAs.

    Columns: kernel, variant; of, "cta" or "sm"; count, how many were looked at; cycles, their mean time.
    Then parts of that time, 0 to 1: copies, in which an asynchronous copy is in flight, from its begin until
    a wait for it returned; dots, in which one is under way or some warp is in one; other, in which some warp
    does anything else but wait; copies_and_dots, copies_and_other, dots_and_other, in which both are so; and
    none, in which all warps wait, with nothing in flight. A kernel that overlaps well has copies_and_dots
    near the smaller of the two. An SM is missing if only some of its CTAs were recorded.

    If copies were waited for and not recorded themselves, as at the default level, their columns are missing:
    copies, copies_and_dots, copies_and_other and none.

    attrs["not_measured"]: list of str, which kernels have no rows, and why.
    """
    return joined_frame((overlap_of(each) for each in kernel_analyses(tables)), OVERLAP_DTYPES)


def overlap_of(analysis: KernelAnalysis | SkippedKernel) -> Answer:
    """The rows of `overlap` of one configuration."""
    if isinstance(analysis, SkippedKernel):
        return analysis.answer
    told = {"kernel": analysis.kernel, "variant": analysis.variant}
    rows = [told | {"of": "cta"} | _means(analysis, _ctas(analysis))]
    missing = []
    if analysis.whole:
        rows.append(told | {"of": "sm"} | _means(analysis, _sms(analysis)))
    else:
        missing.append(f"{analysis.kernel}: an SM, of whose CTAs only some were recorded")
    if hides_copies(analysis.sites["scope"]):
        rows = [row | dict.fromkeys(_OF_COPIES, np.nan) for row in rows]
        missing.append(f"{analysis.kernel}: copies, which were not recorded (instrument='heavy' does)")
    return Answer(rows, missing)


def _ctas(analysis: KernelAnalysis) -> list[Ints]:
    """Some CTAs, each as the rows of `analysis.ctas` that it is."""
    known, counts = np.unique(analysis.spans.cta, return_counts=True)
    most = max(1, int(np.searchsorted(np.cumsum(counts), _MOST_SPANS, "right")))
    return [known[at : at + 1] for at in range(min(len(known), _CTAS, most))]


def _sms(analysis: KernelAnalysis) -> list[Ints]:
    """The CTAs of a few SMs, in the last launch, as rows of `analysis.ctas`."""
    known = np.unique(analysis.spans.cta)
    last = analysis.ctas["launch"].to_numpy()[known] == analysis.ctas["launch"].iloc[-1]
    known = known[last]
    sm, counts = analysis.ctas["sm"].to_numpy()[known], np.bincount(analysis.spans.cta)[known]
    numbers, inverse = np.unique(sm, return_inverse=True)
    spans = np.cumsum(np.bincount(inverse, counts))
    most = max(1, int(np.searchsorted(spans, _MOST_SPANS_OF_SMS, "right")))
    return [known[sm == each] for each in numbers[: min(_SMS, most)]]


def _means(analysis: KernelAnalysis, groups: list[Ints]) -> dict[str, Any]:
    figures = [_parts(analysis, ctas) for ctas in groups]
    means = {name: float(np.mean([each[name] for each in figures])) for name in figures[0]}
    return means | {"count": len(groups), "cycles": int(means["cycles"])}


def _parts(analysis: KernelAnalysis, ctas: Ints) -> dict[str, float]:
    """cycles, and the parts of them, of some CTAs that share a clock."""
    spans = analysis.spans
    firsts, lasts = (np.searchsorted(spans.cta, ctas, side) for side in ("left", "right"))
    rows = np.concatenate(
        [np.arange(first, last) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    )
    roots = rows[spans.parent[rows] < 0]
    whole = covered(spans.start[roots], spans.end[roots])
    union = {name: united(*each) for name, each in _intervals(analysis, rows, firsts, lasts).items()}
    alone = {name: covered(*union[name]) for name in _PARTS}
    result = {name: alone[name] / max(1.0, whole) for name in _PARTS}
    for one, two in combinations(_PARTS, 2):
        both = alone[one] + alone[two] - covered(*_joined([union[one], union[two]]))
        result[f"{one}_and_{two}"] = both / max(1.0, whole)
    any_of_them = covered(*_joined(list(union.values())))
    result |= {"none": 1 - any_of_them / max(1.0, whole), "cycles": whole}
    return {name: value if name == "cycles" else min(1.0, max(0.0, value)) for name, value in result.items()}


def _joined(intervals: list[_Intervals]) -> _Intervals:
    begins, ends = zip(*intervals, strict=True)
    return np.concatenate(begins), np.concatenate(ends)


def _intervals(analysis: KernelAnalysis, rows: Ints, firsts: Ints, lasts: Ints) -> dict[str, _Intervals]:
    """By part, begins and ends within some CTAs, each of the spans from a first to a last one, which are
    `rows` in all."""
    site, begin, end, _, span = slices_of(analysis, rows)
    cls = analysis.sites["cls"]
    for_dots = (span >= 0) & analysis.for_dots[np.maximum(span, 0)]
    dots = (cls == "mma").to_numpy()[site] | for_dots
    waits = cls.isin(_WAITS).to_numpy()[site] & ~for_dots
    other = ~dots & ~waits
    at, of_dots = _flights(analysis, firsts, lasts)
    df = analysis.tables.df
    start = df["start_cycle"].to_numpy()[at]
    until = start + df[DURATION].to_numpy()[at]
    return {
        "copies": (start[~of_dots], until[~of_dots]),
        "dots": (np.append(begin[dots], start[of_dots]), np.append(end[dots], until[of_dots])),
        "other": (begin[other], end[other]),
    }


def _flights(analysis: KernelAnalysis, firsts: Ints, lasts: Ints) -> tuple[Ints, _Bools]:
    """Rows of the profile's table: the asynchronous work of some CTAs that a wait ended; and which of it is
    dots."""
    row, wait = analysis.spans.row, analysis.tables.df["wait"].to_numpy()
    begins, ends = row[firsts], row[lasts - 1] + 1
    at = np.concatenate(
        [
            begin + np.flatnonzero(wait[begin:end] >= 0)
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
    )
    known = analysis.dots_in_flight[0]
    place = np.minimum(np.searchsorted(known, at), max(0, len(known) - 1))
    return at, known[place] == at if len(known) else np.zeros(len(at), np.bool_)
