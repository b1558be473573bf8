"""Which launch options and constexprs could help against each finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["OF_THE_GRID", "REMEDIES", "Chosen", "Steps", "steps_for"]

MORE_STAGES: Final = "num_stages up"
MORE_WARPS: Final = "num_warps up"
FEWER_WARPS: Final = "num_warps down"
FEWER_REGISTERS: Final = "maxnreg down"
MORE_REGISTERS: Final = "maxnreg up"
VARY: Final = "vary"

REMEDIES: Final[Mapping[str, tuple[str, ...]]] = {
    "idle-sms": (VARY,),
    "tail": (VARY,),
    "load-imbalance": (VARY,),
    "tiny-ctas": (VARY,),
    "low-occupancy": (FEWER_REGISTERS, MORE_WARPS, VARY),
    "uncoalesced-load": (FEWER_WARPS, VARY),
    "uncoalesced-store": (FEWER_WARPS, VARY),
    "unvectorized-access": (FEWER_WARPS, VARY),
    "tile-reread": (VARY,),
    "bank-conflict": (MORE_WARPS, FEWER_WARPS, VARY),
    "register-spills": (MORE_REGISTERS, MORE_WARPS, VARY),
    "atomics": (VARY,),
    "exposed-latency": (MORE_STAGES, MORE_WARPS, VARY),
    "few-stages": (MORE_STAGES, VARY),
    "small-mma": (VARY, FEWER_WARPS),
    "serial-reduction": (FEWER_WARPS, VARY),
    "too-many-warps": (FEWER_WARPS,),
    "late-warp": (FEWER_WARPS,),
    "partition-starved": (MORE_STAGES, VARY),
    "mma-not-overlapped": (MORE_STAGES, VARY),
    "masked-work": (VARY,),
    "redundant-load": (FEWER_WARPS, VARY),
    "layout-conversion": (FEWER_WARPS, MORE_WARPS, VARY),
}
"""Findings that are missing here need another source: no option changes the type of a dot's operands, say."""

OF_THE_GRID: Final = ("idle-sms", "tail", "load-imbalance", "tiny-ctas")
"""Findings that only another grid can help: what leaves the grid as it is is no remedy of theirs."""

_WARPS: Final = (1, 2, 4, 8, 16, 32)
_STAGES: Final = (3, 4, 5)
_REGISTERS: Final = (168, 128, 96, 80, 64, 48)


@dataclass(frozen=True)
class Chosen:
    """What a launch has now. registers: of a thread, 0 if not known."""

    num_warps: int
    num_stages: int
    maxnreg: int | None
    registers: int


@dataclass(frozen=True)
class Steps:
    """Values of one option, to be tried in this order. climbs: a value is tried only if the one before it
    was faster. findings: the names that suggest it; none for what only the caller asked for."""

    option: str
    values: tuple[Any, ...]
    climbs: bool
    findings: tuple[str, ...] = ()


def steps_for(findings: Iterable[str], chosen: Chosen, vary: Mapping[str, Sequence[Any]]) -> list[Steps]:
    """What to try against these findings, the first finding's first, each once; then the rest of `vary`."""
    found: dict[tuple[str, tuple[Any, ...]], Steps] = {}
    for finding in dict.fromkeys(findings):
        for remedy in REMEDIES.get(finding, ()):
            for steps in _steps(remedy, chosen, vary):
                known = found.get((steps.option, steps.values), steps).findings
                whole = Steps(steps.option, steps.values, steps.climbs, (*known, finding))
                found[steps.option, steps.values] = whole
    for steps in _steps(VARY, chosen, vary):
        found.setdefault((steps.option, steps.values), steps)
    return list(found.values())


def _steps(remedy: str, chosen: Chosen, vary: Mapping[str, Sequence[Any]]) -> Iterator[Steps]:
    if remedy == VARY:
        yield from (Steps(name, tuple(values), climbs=False) for name, values in vary.items())
        return
    option, values = _ladder(remedy, chosen)
    if values:
        yield Steps(option, values, climbs=True)


def _ladder(remedy: str, chosen: Chosen) -> tuple[str, tuple[Any, ...]]:
    """Values in the direction of the remedy, the nearest first."""
    if remedy == MORE_STAGES:
        return "num_stages", tuple(each for each in _STAGES if each > chosen.num_stages)
    if remedy == MORE_WARPS:
        return "num_warps", tuple(each for each in _WARPS if each > chosen.num_warps)
    if remedy == FEWER_WARPS:
        return "num_warps", tuple(each for each in reversed(_WARPS) if each < chosen.num_warps)
    if remedy == MORE_REGISTERS:
        return "maxnreg", () if chosen.maxnreg is None else (None,)
    return "maxnreg", tuple(each for each in _REGISTERS if each < chosen.registers)
