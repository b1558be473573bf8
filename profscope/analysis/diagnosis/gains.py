"""What a launch's time is without a cause: the largest of what remains.

    time without it = max(1 - removed, every other resource at its attainable peak)

removed: the part of the launch's time, as samples and counts measure it, in which the cause holds warps up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profscope.analysis.diagnosis.facts import KernelFacts

__all__ = ["ATTAINABLE", "ATTAINABLE_DRAM", "gain_pct", "left_of_traffic"]

ATTAINABLE_DRAM: Final = 0.89
ATTAINABLE: Final = 0.95
"""What part of the peaks of DRAM and of the other resources kernels reach at most: copies and sums of 64 M
elements 0.84 to 0.89 of DRAM; others 0.93 of L2, 0.95 of L1, 0.94 of shared memory and of the tensor pipe and
0.96 of the issue slots (NVIDIA H200, `bench/corpus`)."""


def gain_pct(facts: KernelFacts, removed: float, scaled: Mapping[str, float] | None = None) -> float:
    """scaled: by resource, the part of its use that stays without the cause; 1 for the others."""
    left = max(
        (
            used * (scaled or {}).get(resource, 1.0) / (ATTAINABLE_DRAM if resource == "dram" else ATTAINABLE)
            for resource, used in facts.used.items()
        ),
        default=0.0,
    )
    return 100 * (1 - min(1.0, max(1 - removed, left)))


def left_of_traffic(facts: KernelFacts, loaded: float, stored: float) -> dict[str, float]:
    """What part of the use of L1, L2 and DRAM stays if loads and stores touch only so many sectors. L2 and
    DRAM move no more than these then; what caches have spared them already is no gain."""
    taken_load, taken_store = 32.0 * facts.sectors("LDG", "LDGSTS"), 32.0 * facts.sectors("STG")
    load, store = 32.0 * loaded, 32.0 * stored
    missed = taken_load * (1 - min(100.0, max(0.0, facts.counters.get("l1_hit_rate", 0.0))) / 100)
    local = facts.local_bytes
    read, written = facts.counters.get("dram_read", 0.0), facts.counters.get("dram_write", 0.0)
    of_l1 = (load + store + local) / max(1.0, taken_load + taken_store + local)
    return {
        "l1": of_l1,
        "lsu": of_l1,
        "l2": min(1.0, (min(missed, load) + store + local) / max(1.0, missed + taken_store + local)),
        "dram": min(1.0, (min(read, load) + min(written, store)) / max(1.0, read + written)),
    }
