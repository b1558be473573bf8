"""What a launch's time is without a cause: the largest of what remains.

    time without it = max(1 - removed, every other resource at its attainable peak)

removed: the part of the launch's time, as samples and counts measure it, in which the cause holds warps up.

Six things are uncertain, and set how low and how high the gain may be.
What is removed, and what stays of other resources' use: each cause says it.
Sampling: a share of the samples is known to its Wilson interval.
Which limit remains: at the least, resources reach `ATTAINABLE` times what is expected of them; at the most,
L2 and the tensor pipe reach their peaks, L1 holds what L2 sends again, and other instructions take no time.
Queues: at the most, waits for the instructions of other warps shrink with what the cause puts into a queue.
Code placement: the time without the cause is known to `NOISE_PCT`.
Whether waits overlap. At the least, other warps issue in the time that is removed as often as in the rest,
so that part is no loss, and the time in which SMs are idle stays. At the most, warps that wait at barriers
for those that are held up come as much earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.cause import NO_GAIN, Gain
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import ATOMICS, KernelFacts
from profscope.analysis.estimates import shares_between
from profscope.analysis.kernels.devices import PIPES
from profscope.analysis.limits import binding

__all__ = [
    "LSU_QUEUES",
    "QUEUES",
    "Without",
    "attainable",
    "gain",
    "held_by_traffic",
    "hidden_gain",
    "kept_without",
    "left_of_traffic",
    "missed_by_l1",
]

_WHATEVER_CODE = ("dram", "l2", "tensor")  # busy with bytes and products, whatever instructions ask for them
_PEAKS = ("l2", "tensor")
_ROOFS = ("dram", "tensor")  # what a kernel is written for: near them, nothing else is in its way
_PLACES = 64  # of an SM, for warps
_SHARED_WAITS = (
    "lg_throttle", "mio_throttle", "tex_throttle", "short_scoreboard", "math_pipe_throttle", "not_selected",
    "dispatch_stall", "no_instructions",
)  # fmt: skip
"""Stalls that are waits for other warps' instructions."""
LSU_QUEUES: Final = ("lg_throttle", "mio_throttle")
QUEUES: Final = (*LSU_QUEUES, "long_scoreboard", "drain", "tex_throttle", "short_scoreboard")
"""Stalls that are waits for memory, or until one of its queues takes an access."""


@dataclass(frozen=True)
class Without:
    """What is gone without a cause.

    removed: the part of the time in which it holds warps up. kept: by resource, the part of its use that
    stays; 1 for the others.
    """

    removed: float
    kept: Mapping[str, float] = field(default_factory=dict)


def gain(
    facts: KernelFacts,
    expected: Without,
    least: Without | None = None,
    most: Without | None = None,
    *,
    is_exact: bool = False,
) -> Gain:
    """least, most: if the cause knows bounds of its own. is_exact: `removed` was not sampled, and
    nothing else runs in that time."""
    if facts.emulated:
        return _modelled(facts, expected, least or expected, most or expected)
    if any(
        facts.used.get(name, 0.0) * expected.kept.get(name, 1.0) >= thresholds.NEAR_ROOF for name in _ROOFS
    ):
        return NO_GAIN
    idle = 0.0 if is_exact else facts.idle
    lowest, highest = least or expected, most or expected
    low, high = lowest.removed, highest.removed
    if not is_exact:
        low = _between(facts, low)[0] * (1 - min(1.0, facts.used.get("issue", 0.0)))
        high = _between(facts, high)[1]
        high += (1 - high) * facts.stalled(*_SHARED_WAITS) * (1 - min([1.0, *expected.kept.values()]))
        high = min(1.0, high / max(1 - facts.stalled("barrier"), 1e-9))
    pct = 100 * (1 - max(1 - expected.removed, _left(facts.used, expected.kept)))
    kept_time = max(1 - low * (1 - idle), _left(facts.used, lowest.kept) / thresholds.ATTAINABLE)
    must = {
        name: used * attainable(name) if name in _PEAKS else used
        for name, used in facts.used.items()
        if name in _WHATEVER_CODE
    }
    fewest = dict(highest.kept) | {"l2": min(highest.kept.get("l2", 1.0), _of_dram(facts))}
    high_pct = 100 * (1 - max(1 - high, _left(must, fewest)))
    noise = thresholds.NOISE_PCT / 100
    low_pct, high_pct = 100 * (1 - kept_time * (1 + noise)), 100 - (100 - high_pct) * (1 - noise)
    pct = max(0.0, pct)
    low_pct, high_pct = max(0.0, min(low_pct, pct)), max(high_pct, pct) if pct else 0.0
    return Gain(pct, low_pct, high_pct, *_roof(facts, expected))


def _modelled(facts: KernelFacts, expected: Without, least: Without, most: Without) -> Gain:
    """On the emulator, whose waits are of few CTAs, and whose resources of as many as fit (`limits`): the
    larger of what either would save. At the most, what L2 would move takes all of the time."""
    now = _left(facts.used, {})
    is_bound = now >= thresholds.BOUND

    def saved(without: Without) -> tuple[float, float]:
        return without.removed, now - _left(facts.used, without.kept) if is_bound else without.removed

    pct, low = max(0.0, *saved(expected)), max(0.0, min(saved(least)))
    high = max(*saved(most), 1 - most.kept.get("l2", 1.0))
    by_roof = _roof(facts, expected) if pct > expected.removed else ("", 1.0)
    return Gain(100 * pct, 100 * min(low, pct), 100 * max(high, pct) if pct else 0.0, *by_roof)


def _roof(facts: KernelFacts, without: Without) -> tuple[str, float]:
    """The resource that binds the kernel, "" if none is known, and the part of its use that stays."""
    roof = binding({name: 100 * used for name, used in facts.used.items()}) if facts.used else ""
    return roof, without.kept.get(roof, 1.0)


def _of_dram(facts: KernelFacts) -> float:
    """What part of the bytes that loads and stores ask L2 for DRAM moves: L1 may hold the others."""
    moved = facts.counters.get("dram_read", 0.0) + facts.counters.get("dram_write", 0.0)
    return min(1.0, moved / max(1.0, 32.0 * facts.sectors("LDG", "LDGSTS", "STG")))


def hidden_gain(
    facts: KernelFacts,
    waits: float,
    kept: Mapping[str, float] | None = None,
    times: float = thresholds.IN_FLIGHT,
) -> Gain:
    """Of waits that others hide if `times` as much is in flight, at least half as much of
    it, at most any amount. In the time in which CTAs run, a kernel at a roof, or one that uses most of the
    issue slots, a pipe or shared memory, has others to run in these waits; so has an SM with warps for more
    than half of its places: not even twice as many could be there."""
    if thresholds.IN_FLIGHT / 2 * facts.resident_warps > _PLACES:
        return NO_GAIN
    at_roof = thresholds.NEAR_ROOF * (1 - facts.idle)
    roofs = (*_ROOFS, "issue", "shared", *PIPES, *(("l2",) if facts.emulated else ()))
    if any(facts.used.get(name, 0.0) * facts.filled >= at_roof for name in roofs):
        return NO_GAIN
    met = waits / max(1 - facts.stalled("barrier"), waits)
    expected, least = (1 - 1 / each for each in (times, times / 2))
    removed = (met * expected, waits * least, waits)
    return gain(facts, *(Without(each, kept or {}) for each in removed))


def _between(facts: KernelFacts, share: float) -> tuple[float, float]:
    """What share of all samples one of those that were taken may stand for."""
    lows, highs = shares_between(np.array([min(1.0, share) * facts.sampled]), facts.sampled)
    return float(lows[0]), float(highs[0])


def _left(used: Mapping[str, float], kept: Mapping[str, float]) -> float:
    """The time that the busiest resource takes, of what it keeps and as fast as kernels attain."""
    return max((each * kept.get(name, 1.0) / attainable(name) for name, each in used.items()), default=0.0)


def attainable(resource: str) -> float:
    """What part of a resource's peak good kernels reach."""
    if resource == "tensor":
        return thresholds.NEAR_ROOF
    return thresholds.ATTAINABLE_DRAM if resource == "dram" else thresholds.ATTAINABLE


def held_by_traffic(facts: KernelFacts, left: Mapping[str, float], part: float = 1.0) -> float | None:
    """The part of the time that waits for traffic, if traffic binds the kernel; None if nothing does. If a
    resource binds the kernel, that is what the resource would move less. If none does, but at any time a warp
    of each scheduler waits until queues of memory accept its access, or until its stores have left them, it
    is all waits for memory: what limits these queues has no counter. part: of what fills them that is gone,
    if it is not most of it."""
    busiest = binding({name: 100 * used for name, used in facts.used.items()})
    if busiest:
        return 1 - left.get(busiest, 1.0)
    is_full = facts.stalled(*LSU_QUEUES, "drain") * facts.resident_warps >= thresholds.SCHEDULERS
    return part * facts.stalled(*QUEUES) if is_full else None


def kept_without(facts: KernelFacts, rows: pd.Series, part: float = 1.0) -> dict[str, float]:
    """What part of the use of issue slots, pipes, L1 and shared memory stays if `part` of the marked
    instructions are gone. What L2 and DRAM move is another question."""

    def kept(amount: pd.Series) -> float:
        every = float(amount.sum())
        return 1 - part * float(amount[rows].sum()) / every if every else 1.0

    counts = facts.counts
    passed = counts["wavefronts"] + counts["sectors"] / thresholds.LINE_SECTORS
    pipes = {pipe: kept(facts.slots[pipe]) for pipe in PIPES}
    return pipes | {
        "issue": kept(counts["executed"]),
        "shared": kept(counts["wavefronts"]),
        "l1": kept(passed),
    }


def missed_by_l1(facts: KernelFacts) -> float:
    """What part of the sectors that loads ask for L1 does not have. Its hit rate is of all sectors (NVIDIA,
    "Nsight Compute", memory tables). Stores and atomics go on to L2, and hit where a store has just been."""
    loaded = facts.sectors("LDG", "LDGSTS") + facts.local_bytes / 32
    every = loaded + facts.sectors("STG", *ATOMICS)
    stores = facts.counts[facts.counts["op"].eq("STG")]
    again = float((stores["sectors"] - stores["sectors_ideal"]).clip(lower=0).sum())
    hits = every * min(100.0, max(0.0, facts.counters.get("l1_hit_rate", 0.0))) / 100 - again
    return 1 - min(1.0, max(0.0, hits) / max(1.0, loaded))


def left_of_traffic(facts: KernelFacts, loaded: float, stored: float) -> dict[str, float]:
    """What part of the use of L1, L2 and DRAM stays if loads and stores touch only so many sectors. L2 and
    DRAM move no more than these then; what caches have spared them already is no gain."""
    taken_load, taken_store = 32.0 * facts.sectors("LDG", "LDGSTS"), 32.0 * facts.sectors("STG")
    load, store = 32.0 * loaded, 32.0 * stored
    missed = taken_load * missed_by_l1(facts)
    local = facts.local_bytes
    others = local + 64.0 * facts.sectors(*ATOMICS)  # an atomic reads its sector and writes it
    read, written = facts.counters.get("dram_read", 0.0), facts.counters.get("dram_write", 0.0)
    of_l1 = (load + store + local) / max(1.0, taken_load + taken_store + local)
    return {
        "l1": of_l1,
        "lsu": of_l1,
        "l2": min(1.0, (min(missed, load) + store + others) / max(1.0, missed + taken_store + others)),
        "dram": min(1.0, (min(read, load) + min(written, store)) / max(1.0, read + written)),
    }
