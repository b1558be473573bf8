"""How much of a kernel's time no span inside covers, and what would show more of it."""

from collections.abc import Sequence
from typing import Any, Final

from profscope.analysis.spans.rows import narrow_sites
from profscope.analysis.spans.summing import SummedSpans
from profscope.profiles import Profile

__all__ = ["FRAMES", "MOSTLY", "advice", "bare_kernels"]

FRAMES: Final = ("kernel", "loop", "iteration")
"""Spans that say where a warp was, not what it did: their own time is that of no op."""

MOSTLY: Final = 0.5
"""From this share of a kernel's warp time on, the view says what would show more."""

DEFAULT: Final = 'instrument="default" records loads, stores, waits and MMAs'
HEAVY: Final = 'instrument="heavy" adds reductions, barriers, layout conversions, shared memory and copies'
LATENCY: Final = 'measure="latency" ends spans on loads with the arrival of their data'
ARITHMETIC: Final = 'instrument=["heavy", "op-spans{classes=math;convert;elementwise}"] adds arithmetic'
REST: Final = "arithmetic has spans: the rest is scalars, addresses and control flow"


def advice(options: dict[str, Any]) -> str:
    """The options that show more of what these left in no span; "" if they are not known."""
    level, measure = options.get("instrument"), options.get("measure")
    if level is None:
        return ""
    if level == "light":
        return f"{DEFAULT}, {HEAVY}"
    steps = [HEAVY] if level == "default" else []
    steps += [] if measure == "latency" else [LATENCY]
    steps += [] if "elementwise" in str(level) else [ARITHMETIC]
    return ", ".join(steps or [REST])


def bare_kernels(profile: Profile, kernels: Sequence[str], spans: SummedSpans | None = None) -> list[str]:
    """Those of some kernels that have spans, but none inside their own. spans: what the summary adds up,
    where that is known."""
    sites = narrow_sites(profile.tables.df)[1] if spans is None else spans.rows
    inside = {*sites.loc[sites["kind"] != "kernel", "kernel"]}
    return [name for name in kernels if name in {*sites["kernel"]} - inside]
