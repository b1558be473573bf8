"""Which sums a kernel can afford: registers are their price, and too many of them cost a CTA on every SM.

A build that loses a CTA against the bare one, or spills where that did not, keeps less: first no longest
durations, then no sums of their own for the classes of ops that tell least, whose time becomes that of what
is around them. Scopes, loops, global memory, asynchronous work, waits, MMAs and calls stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from instrument_passes.analyses.occupancy import CuLimits, SmLimits

__all__ = ["FOLDED", "STEPS", "Demand", "Step", "afford", "loses", "loses_less"]

# Classes of ops, the least interesting first.
FOLDED: Final = ("debug", "elementwise", "convert", "math", "layout", "descriptor", "reduce", "local")


@dataclass(frozen=True)
class Step:
    """Options of `lower-records`: `keep`, and the classes of ops that `fold` names."""

    keep: str
    fold: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"keep={self.keep}" + (f" fold={';'.join(self.fold)}" if self.fold else "")


STEPS: Final = (
    Step("sums"),
    Step("totals"),
    Step("totals", FOLDED[:4]),
    Step("totals", FOLDED[:6]),
    Step("totals", FOLDED),
)
"""From all to the least that is kept."""


@dataclass(frozen=True)
class Demand:
    """What a binary asks for. registers: of a thread; shared_bytes, warps: of a CTA; local_bytes: stack and
    spills of a thread."""

    warps: int
    registers: int
    shared_bytes: int
    local_bytes: int


def loses(bare: Demand, built: Demand, limits: SmLimits | CuLimits | None) -> str:
    """What an instrumented binary loses against the bare one, in words; "" if nothing.

    limits: of the GPU; None where they are not known, and only spills count.
    """
    spilled, ctas = _loss(bare, built, limits)
    if spilled:
        return f"{spilled} bytes of spills"
    if not ctas:
        return ""
    assert limits is not None
    return f"{ctas} of {_fit(bare, limits)} CTAs"


def loses_less(bare: Demand, one: Demand, other: Demand, limits: SmLimits | CuLimits | None) -> bool:
    """Whether one instrumented binary loses less against the bare one than another does."""
    return _loss(bare, one, limits) < _loss(bare, other, limits)


def afford(
    first: Step, bare: Demand, build: Callable[[Step], Demand], limits: SmLimits | CuLimits | None
) -> tuple[Step, str]:
    """The first step from `first` on that loses nothing; else the first of those that lose least, and what.

    build: what a step's binary asks for; it is called once a step, until one is good enough.
    """
    best, least = first, build(first)
    for step in STEPS[STEPS.index(first) + 1 :]:
        if not loses(bare, least, limits):
            break
        demand = build(step)
        if loses_less(bare, demand, least, limits):
            best, least = step, demand
    return best, loses(bare, least, limits)


def _loss(bare: Demand, built: Demand, limits: SmLimits | CuLimits | None) -> tuple[int, int]:
    """Bytes of spills, and CTAs."""
    ctas = 0 if limits is None else _fit(bare, limits) - _fit(built, limits)
    return max(0, built.local_bytes - bare.local_bytes), max(0, ctas)


def _fit(demand: Demand, limits: SmLimits | CuLimits) -> int:
    return limits.fit(demand.warps, demand.registers, demand.shared_bytes)
