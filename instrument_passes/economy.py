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

__all__ = ["FOLDED", "STEPS", "Demand", "Step", "afford", "loses"]

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
    if built.local_bytes > bare.local_bytes:
        return f"{built.local_bytes - bare.local_bytes} bytes of spills"
    if limits is None:
        return ""
    fit = [limits.fit(each.warps, each.registers, each.shared_bytes) for each in (bare, built)]
    return f"{fit[0] - fit[1]} of {fit[0]} CTAs" if fit[1] < fit[0] else ""


def afford(
    first: Step, bare: Demand, build: Callable[[Step], Demand], limits: SmLimits | CuLimits | None
) -> tuple[Step, str]:
    """The first step from `first` on that loses nothing, or else the last one; and what that loses.

    build: what a step's binary asks for; it is called once a step, until one is good enough.
    """
    steps = STEPS[STEPS.index(first) :]
    for step in steps:
        lost = loses(bare, build(step), limits)
        if not lost:
            return step, ""
    return step, lost
