"""serial-stage: tensor cores and everything else take turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.intervals import covered
from profscope.analysis.kernel_analysis import DURATION, KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.quantities import count_text

__all__ = ["causes"]

_SMS: Final = 4  # that are looked at
_SERIAL: Final = 0.05  # of the time, that must pass with one behind the other


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """In a loop with dots, an SM is either in a dot or in other work, not in both.

    Of each of a few SMs: M is the time in which a dot is under way, or a warp in one, R the time in which
    some warp is in the loop and in neither a dot nor a wait for copies. If all overlapped the SM would take
    the longer of the two. Gain: one minus that over the time in which the SM has CTAs. At least 5 % of that
    time must pass with one behind the other. Confidence: medium. The line is that of the op other than dots
    and waits with most own time in the loop.
    """
    spans, sites = judged.spans, judged.sites
    if not (sites["cls"] == "mma").any() or partitions_of(judged) > 1:
        return
    names = sites["scope"]
    awaited = judged.for_dots
    dots = judged.of_class("mma") | awaited
    waits = judged.of_class("wait") & ~awaited
    in_loop = spans.iteration >= 0
    other = in_loop & judged.of_kind("op") & ~dots & ~waits
    if not awaited.any() or not other.any():
        return
    if not judged.whole and judged.build("instrumented").get("ctas_per_sm") != 1:
        yield NotMeasured("serial-stage: only some of the CTAs that an SM ran at once were recorded")
        return
    sm = judged.ctas["sm"].to_numpy()[spans.cta]
    launch = judged.ctas["launch"].to_numpy()[spans.cta]
    serial = whole = longer = mma = others = 0.0
    for chosen in np.unique(sm)[:_SMS]:
        here = (sm == chosen) & (launch == launch[-1])
        m = here & in_loop & dots
        flight = _in_flight(judged, int(chosen), int(launch[-1]))
        begin, end = np.append(spans.start[m], flight[0]), np.append(spans.end[m], flight[1])
        busy = _between(judged, here, dots | waits)
        at_dots = covered(begin, end)
        at_rest = covered(*busy)
        both = covered(np.append(begin, busy[0]), np.append(end, busy[1]))
        serial += both - max(at_dots, at_rest)
        longer += max(at_dots, at_rest)
        mma, others = mma + at_dots, others + at_rest
        roots = here & (spans.parent < 0)
        whole += covered(spans.start[roots], spans.end[roots])
    if not whole or serial < _SERIAL * whole:
        return
    own = judged.total(spans.own + spans.gap, other)
    site = int(np.argmax(own))
    file, line = judged.at(site)
    together = judged.shape.per_sm if judged.shape else None
    beside = f", {count_text(together, 'CTA')} on the SM at once" if together else ""
    yield Finding(
        "serial-stage",
        file,
        line,
        f"an SM spends {100 * mma / whole:.0f} % of its time in dots and {100 * others / whole:.0f} % in "
        f"other work of the loop, most of it at {names.iloc[site]} (line {line}), and "
        f"{100 * serial / whole:.0f} % one after the other{beside}",
        "let one run beside the other: two CTAs on an SM (less shared memory or registers), the next dot "
        "started before this one's result is used, or warp specialisation",
        100 * (1 - longer / whole),
        "medium",
        also=tuple(sorted({judged.at(int(each))[1] for each in np.flatnonzero(own > 0)})),
    )


def _in_flight(judged: KernelAnalysis, sm: int, launch: int) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of the dots in flight on an SM, in loops."""
    df, (at, _) = judged.tables.df, judged.dots_in_flight
    here = (df["sm"].to_numpy()[at] == sm) & (df["launch"].to_numpy()[at] == launch)
    at = at[here & (df["iteration"].to_numpy()[at] >= 0)]
    begin = df["start_cycle"].to_numpy()[at]
    return begin, begin + df[DURATION].to_numpy()[at]


def _between(judged: KernelAnalysis, here: np.ndarray, apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of what lies in the loops of warps `here` and in none of the spans `apart`."""
    spans = judged.spans
    rows = np.flatnonzero(here & apart & (spans.iteration >= 0))
    outer = np.flatnonzero(here & judged.of_kind("loop"))
    outer = outer[(spans.iteration[outer] < 0)]
    first, last = spans.start[outer], spans.end[outer]
    # A loop's begin and end bound what lies in it, as spans of no length; behind its end nothing counts.
    begin = np.concatenate([spans.start[rows], first, last])
    end = np.concatenate([spans.end[rows], first, last])
    warp = np.concatenate([spans.warp[rows], spans.warp[outer], spans.warp[outer]])
    rank = np.repeat([1, 0, 2], [len(rows), len(outer), len(outer)])
    order = np.lexsort((rank, begin, warp))
    begin, end, warp, rank = begin[order], end[order], warp[order], rank[order]
    some = (warp[1:] == warp[:-1]) & (rank[:-1] < 2) & (begin[1:] > end[:-1])
    return end[:-1][some], begin[1:][some]
