"""How much figures of two sessions differ although nothing was changed; docs/benchmarks.md says how we know.

A row's floor is `relative` of its own time and `share` of all the kernel's warp time: noise that moves a few
per cent of the kernel's time from one line to the next can double a short one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["NO_FLOOR", "Floor", "floor_of"]


class Floor(NamedTuple):
    """Both as parts, 0 to 1. why: what noise it is, for notes."""

    relative: float
    share: float
    why: str

    @property
    def text(self) -> str:
        """ "3 % of a row's time and 1 % of all warps' time"."""
        return f"{100 * self.relative:g} % of a row's time and {100 * self.share:g} % of all warps' time"


NO_FLOOR: Final = Floor(0.0, 0.0, "emulated cycles have no noise")

_SAME_BINARY: Final = Floor(0.03, 0.005, "two sessions of one binary")
_LAYOUT: Final = Floor(0.04, 0.01, "two binaries, whose code lies elsewhere")
_ONE_LAUNCH: Final = Floor(0.10, 0.02, "a single launch on either side")


def floor_of(*, emulated: bool, same_build: bool, single: bool) -> Floor:
    """same_build: whether both ran one binary; single: whether either side has one launch only."""
    if emulated:
        return NO_FLOOR
    floor = _SAME_BINARY if same_build else _LAYOUT
    return max(floor, _ONE_LAUNCH) if single else floor
