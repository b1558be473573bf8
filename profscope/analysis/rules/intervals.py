"""90 % intervals of gains, from the savings of repairs.

On the corpus real gains differ from the calculated ones: a model leaves resources out, latencies overlap, and
a repair does more than undo the fault. The difference depends on the data behind a gain, so each of three
kinds has a spread. It is fitted on the scale of arcsin(sqrt(gain)), on which the error of a share does not
depend on the share (M. S. Bartlett, "The square root transformation in analysis of variance", 1936), by
`python -m bench.diagnose --fit`. If the fit leaves out a round of the corpus, 89 % of that round's gains are
in their intervals (docs/benchmarks.md).
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from profscope.analysis.cause import Gain

__all__ = ["SPREADS", "Kind", "Spread", "angle", "interval", "kind_of", "of_repair", "share_of"]

_Z: Final = 1.645  # 90 % of a normal distribution are within so many standard deviations

Kind = Literal["counted", "attributed", "rewritten"]
"""counted: what goes away was counted, such as sectors, wavefronts, CTAs, or waits for one load. attributed:
a rule says which instructions and waits go away. rewritten: another algorithm or binary takes its place."""


class Spread(NamedTuple):
    """The 5th and 95th percentile of the real gain's angle minus the calculated one's."""

    low: float
    high: float


SPREADS: Final[dict[Kind, Spread]] = {
    "counted": Spread(-0.107, 0.184),
    "attributed": Spread(-0.196, 0.280),
    "rewritten": Spread(-0.303, 0.666),
}
_COUNTED: Final = (
    "bank-conflict", "exposed-latency", "idle-sms", "small-mma", "tail", "tile-reread", "tiny-ctas",
    "uncoalesced-load", "uncoalesced-store", "unvectorized-access",
)  # fmt: skip
_REWRITTEN: Final = (
    "conversions", "few-stages", "mma-not-overlapped", "no-tensor-cores", "register-spills",
    "too-many-warps",
)  # fmt: skip
_BY_EXPERIMENTS: Final = Spread(-0.33, 0.30)
"""At least, if waits are known by experiments: to leave an op out also takes away what a repair keeps."""
_OF_REPAIRS: Final = 0.13
"""By how much a repair's angle is off that of the experiment that does the same, at most: in 22 of 24
scattered accesses (docs/experiments.md)."""


def kind_of(finding: str) -> Kind:
    if finding in _COUNTED:
        return "counted"
    return "rewritten" if finding in _REWRITTEN else "attributed"


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
    spread, at = SPREADS[kind_of(finding)], angle(pct)
    if by_experiments:
        spread = Spread(min(spread.low, _BY_EXPERIMENTS.low), max(spread.high, _BY_EXPERIMENTS.high))
    error = _Z / (2 * math.sqrt(samples)) if samples else 0.0  # of the angle of a share
    low, high = (math.hypot(each, error) for each in spread)
    return Gain(pct, share_of(at - low), share_of(at + high))


def of_repair(pct: float, low: float, high: float) -> Gain:
    """The gain of a repair that does what an experiment did. pct, low, high: what that saved."""
    ends = share_of(angle(low) - _OF_REPAIRS), share_of(angle(high) + _OF_REPAIRS)
    return Gain(max(0.0, pct), *ends)
