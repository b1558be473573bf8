"""exposed-load: a warp waits for a load's data with nothing else to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.devices import load_latency_cycles
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.loops import loop_of
from profscope.analysis.span_rows import Floats, Ints
from profscope.analysis.stalls import most_blamed, no_waits

__all__ = ["causes", "exposed_cycles"]

# What takes a load's data, and then waits for it in its own span.
_TAKERS: Final = ("local", "layout", "reduce", "convert", "math", "elementwise")
# The most that a wait for one load can be on a GPU: busy DRAM takes three times as long as idle DRAM.
_MOST: Final = 2000
# Cycles that a load or its successor takes where there is nothing to wait for: issue and the record itself.
_ISSUE: Final = 30


# Warps go round a loop together, so more of them help where its steps have nothing to do with each other, and
# cost where they have: that is not known here.
_IN_LOOPS: Final = (
    "load earlier: num_stages of 3 or more for a loop with a dot or copies, an unrolled loop or more loads "
    "at once otherwise; more CTAs on an SM hide it, too"
)
_OUTSIDE: Final = (
    "load earlier, or more at once, before anything is done with the data; more warps or CTAs on an SM hide "
    "it, too"
)


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Loads whose data is needed at once.

    Waiting is what passes from the begin of a load until the next thing that the warp does: the load's own
    span, the time behind it that no span covers, and the span that takes the data, at most 2,000 cycles
    (400 on the emulator) a load and less 30 for its issue. Gain: this over the time of all warps; as if all
    of it could be hidden. Of loads outside of loops it is divided by the CTAs that an SM runs at once, or by
    the waves of the grid if these are fewer: CTAs of later waves begin beside others that work. Other CTAs
    may hide some of the loops' waits, too. Loads of one loop are one finding, at the line of the one that
    waits most; where the hardware was sampled, of the one that most stalls are blamed on.
    Confidence: high where the load's own span or a record
    behind it bounds the wait on both sides; medium where arithmetic without spans may be in it; low where
    hardware samples saw less than half of it as waits for memory.
    """
    sites = judged.sites
    loads = judged.of_class("load")
    if not loads.any():
        return
    waits, bounded = exposed_cycles(judged)
    by_site = judged.total(waits)
    around = loop_of(judged)
    for loop in np.unique(around[sites["cls"] == "load"]):
        chosen = np.flatnonzero((sites["cls"] == "load").to_numpy() & (around == loop))
        first = _first(judged, chosen, by_site)
        cycles = float(by_site[chosen].sum())
        here = np.isin(np.arange(len(sites)), chosen).take(judged.spans.site)
        file, line = judged.at(first)
        pct = judged.share_pct(cycles)
        beside = _beside(judged) if loop < 0 else 1.0
        # Loads that are under way together wait together: what a step takes tells, not what a load does.
        each = cycles / _steps(judged, here)
        latency = load_latency_cycles(judged.emulated)
        hidden = 1 - each / latency
        names = ", ".join(dict.fromkeys(sites["scope"].iloc[chosen]))
        sure = float(bounded[here].mean()) > 0.5
        doubt = no_waits(judged.tables, judged.kernel, judged.variant, pct)
        where = _where(judged, waits, here) if loop >= 0 else "a time, before anything else can be done"
        yield Finding(
            "exposed-load",
            file,
            line,
            f"{names}: {pct:.0f} % of warp time is spent waiting for the data, "
            f"{each:,.0f} cycles {where}; {max(0.0, 100 * hidden):.0f} % of a memory latency "
            f"({latency} cycles) is hidden{doubt}",
            _IN_LOOPS if loop >= 0 else _OUTSIDE,
            pct / beside,
            "low" if doubt else "high" if sure else "medium",
            also=tuple(int(sites["line"].iloc[each]) for each in chosen),
        )


def _first(judged: KernelAnalysis, loads: Ints, waits: Floats) -> int:
    """The site of the load that waits most. Of loads that are under way together samples know it better than
    spans. waits: by site."""
    first = int(loads[np.argmax(waits[loads])])
    file, _ = judged.at(first)
    lines = judged.sites["line"].to_numpy()[loads]
    blamed = most_blamed(judged.tables, judged.kernel, judged.variant, file, lines.tolist())
    at_line = loads[lines == blamed]
    return int(at_line[np.argmax(waits[at_line])]) if len(at_line) else first


def _beside(judged: KernelAnalysis) -> float:
    """CTAs that an SM runs at once, at another point of their work; 1 where nobody knows."""
    shape = judged.shape
    return 1.0 if shape is None else max(1.0, min(float(shape.per_sm), shape.waves))


def _steps(judged: KernelAnalysis, loads: np.ndarray) -> int:
    """How often the loads ran together: a site has several of one step if its line has several loads."""
    spans = judged.spans
    names = ("site", "parent", "iteration")
    steps = pd.DataFrame({name: getattr(spans, name)[loads] for name in names}).drop_duplicates()
    return int(steps["site"].value_counts().max())


def _where(judged: KernelAnalysis, waits: Ints, here: np.ndarray) -> str:
    """Whether the waits are those of each step of a loop, or of its first ones."""
    first = here & (judged.spans.iteration == 0)
    part = float(waits[first].sum()) / max(1.0, float(waits[here].sum()))
    if part > 0.5 and first.sum() < 0.5 * here.sum():
        return f"a step of the loop, {100 * part:.0f} % of it in first steps"
    return "in each step of the loop"


def exposed_cycles(judged: KernelAnalysis, most: int | None = None) -> tuple[Ints, np.ndarray]:
    """By span: cycles that a warp waited for the load (0 for other spans); and whether records bound the
    wait."""
    spans = judged.spans
    loads = judged.of_class("load")
    takers = judged.of_class(*_TAKERS)
    count = len(spans)
    took = np.zeros(count, np.int64)
    if count > 1:
        near = takers[1:] & (spans.warp[1:] == spans.warp[:-1]) & (spans.gap[:-1] < 60)
        took[:-1] = np.where(near, spans.own[1:], 0)
    most = most or (load_latency_cycles(emulated=True) if judged.emulated else _MOST)
    waits = np.clip(spans.duration + spans.gap + took - _ISSUE, 0, most)
    waits = np.where(loads, waits, 0)
    bounded = loads & ((took > 0) | (spans.duration > spans.gap))
    return waits, bounded
