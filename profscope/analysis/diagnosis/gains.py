"""What a launch's time is without a cause: the largest of what remains.

    time without it = max(1 - removed, every other resource at its attainable peak)

removed: the part of the launch's time, as samples and counts measure it, in which the cause holds warps up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profscope.analysis.diagnosis.facts import KernelFacts

__all__ = ["ATTAINABLE", "gain_pct"]

ATTAINABLE: Final = 0.87
"""What part of the peaks of DRAM, L2 and other resources real kernels reach: copies, adds and sums of 64 M
elements 0.84 to 0.89 of DRAM (NVIDIA H200, `bench/corpus`)."""


def gain_pct(facts: KernelFacts, removed: float, scaled: Mapping[str, float] | None = None) -> float:
    """scaled: by resource, the part of its use that stays without the cause; 1 for the others."""
    left = max(
        (used * (scaled or {}).get(resource, 1.0) / ATTAINABLE for resource, used in facts.used.items()),
        default=0.0,
    )
    return 100 * (1 - min(1.0, max(1 - removed, left)))
