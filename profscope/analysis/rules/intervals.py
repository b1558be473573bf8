"""How well a gain is known: 90 % intervals from what followed findings have saved.

On the corpus the real gain is off the calculated one by a spread that depends on the rule: resources that a
model does not know, latencies that overlap, a repair that does more than undo the fault. It is fitted on the
scale of arcsin(sqrt(gain)), on which the error of a share does not depend on the share (M. S. Bartlett, "The
square root transformation in analysis of variance", 1936), by `python -m bench.diagnose --fit`. The fit of a
rule of few cases leans on those of all others. Of the cases of rounds that were left out of the fit, 88 % are
in these intervals (docs/benchmarks.md).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from profscope.analysis.cause import Gain

__all__ = ["SPREADS", "Spread", "angle", "interval", "of_repair", "share_of"]

_Z: Final = 1.645  # 90 % of a normal distribution are within so many standard deviations


class Spread(NamedTuple):
    """Of the real gain's angle around the calculated one's: what 5 % are below, and 5 % above."""

    low: float
    high: float


SPREADS: Final[dict[str, Spread]] = {
    "atomics": Spread(-0.038, 0.267),
    "bank-conflict": Spread(-0.176, 0.175),
    "conversions": Spread(-0.243, 0.529),
    "exposed-latency": Spread(-0.089, 0.259),
    "few-stages": Spread(-0.290, 0.589),
    "fp64-arithmetic": Spread(-0.218, 0.271),
    "idle-sms": Spread(-0.178, 0.245),
    "index-arithmetic": Spread(-0.171, 0.195),
    "late-warp": Spread(-0.194, 0.273),
    "layout-conversion": Spread(0.000, 0.450),
    "load-imbalance": Spread(-0.187, 0.298),
    "low-occupancy": Spread(-0.192, 0.275),
    "masked-work": Spread(-0.284, 0.354),
    "mma-not-overlapped": Spread(-0.258, 0.544),
    "no-tensor-cores": Spread(-0.388, 0.630),
    "partition-starved": Spread(-0.186, 0.254),
    "redundant-load": Spread(-0.277, 0.327),
    "register-spills": Spread(-0.373, 0.854),
    "serial-reduction": Spread(-0.138, 0.318),
    "slow-math": Spread(-0.191, 0.206),
    "small-mma": Spread(-0.124, 0.285),
    "tail": Spread(-0.142, 0.152),
    "tile-reread": Spread(-0.236, 0.207),
    "tiny-ctas": Spread(-0.031, 0.284),
    "too-many-warps": Spread(-0.295, 0.553),
    "uncoalesced-load": Spread(-0.054, 0.218),
    "uncoalesced-store": Spread(-0.057, 0.204),
    "unvectorized-access": Spread(-0.114, 0.181),
}
"""By finding."""
_OTHERS: Final = Spread(-0.25, 0.25)
_BY_EXPERIMENTS: Final = Spread(-0.33, 0.30)
"""At least, if waits are known by experiments: to leave an op out also takes away what a repair keeps."""
_OF_REPAIRS: Final = 0.13
"""By how much a repair's angle is off that of the experiment that does the same, at most: in 22 of 24
scattered accesses (docs/experiments.md)."""


def angle(pct: float) -> float:
    return math.asin(math.sqrt(min(max(pct / 100, 0.0), 1.0)))


def share_of(angle: float) -> float:
    """In percent; the inverse of `angle`."""
    return 100 * math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2


def interval(finding: str, pct: float, samples: float, *, by_experiments: bool = False) -> Gain:
    """A gain with its interval; 0 has none. samples: that its share was taken from; 0 if it was not
    sampled. by_experiments: these tell what warps wait for."""
    if not pct:
        return Gain(0.0, 0.0, 0.0)
    spread, at = SPREADS.get(finding, _OTHERS), angle(pct)
    if by_experiments:
        spread = Spread(min(spread.low, _BY_EXPERIMENTS.low), max(spread.high, _BY_EXPERIMENTS.high))
    error = _Z / (2 * math.sqrt(samples)) if samples else 0.0  # of the angle of a share
    low, high = (math.hypot(each, error) for each in spread)
    return Gain(pct, share_of(at - low), share_of(at + high))


def of_repair(pct: float, low: float, high: float) -> Gain:
    """The gain of a repair that does what an experiment did. pct, low, high: what that saved."""
    ends = share_of(angle(low) - _OF_REPAIRS), share_of(angle(high) + _OF_REPAIRS)
    return Gain(max(0.0, pct), *ends)
