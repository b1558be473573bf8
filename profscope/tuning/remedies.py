"""The options that test each finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ALSO_TRIED", "OF_THE_GRID", "REMEDIES", "Chosen", "Steps", "steps_for"]

MORE_STAGES: Final = "num_stages up"
MORE_WARPS: Final = "num_warps up"
FEWER_WARPS: Final = "num_warps down"
FEWER_REGISTERS: Final = "maxnreg down"
WGMMA_WARPS: Final = "num_warps of 4 or 8"
MORE_REGISTERS: Final = "maxnreg up"
VARY: Final = "vary"

REMEDIES: Final[Mapping[str, tuple[str, ...]]] = {
    "idle-sms": (VARY,),
    "tail": (VARY,),
    "tiny-ctas": (VARY,),
    "low-occupancy": (FEWER_REGISTERS, MORE_WARPS, VARY),
    "unvectorized-access": (VARY,),
    "tile-reread": (VARY,),
    "register-spills": (MORE_REGISTERS, MORE_WARPS, VARY),
    "exposed-latency": (MORE_STAGES, MORE_WARPS, VARY),
    "few-stages": (MORE_STAGES, VARY),
    "small-mma": (VARY, WGMMA_WARPS),
    "too-many-warps": (FEWER_WARPS,),
    "partition-starved": (MORE_STAGES, VARY),
    "masked-work": (VARY,),
    "redundant-load": (VARY,),
}
"""The options that the advice of a finding names: what they save tests the finding. A finding that is missing
here needs another source: no option changes the type of a dot's operands, say."""

ALSO_TRIED: Final[Mapping[str, tuple[str, ...]]] = {
    "uncoalesced-load": (FEWER_WARPS,),
    "uncoalesced-store": (FEWER_WARPS,),
    "unvectorized-access": (FEWER_WARPS,),
    "bank-conflict": (MORE_WARPS, FEWER_WARPS),
    "serial-reduction": (FEWER_WARPS,),
    "late-warp": (FEWER_WARPS,),
    "mma-not-overlapped": (MORE_STAGES,),
    "redundant-load": (FEWER_WARPS,),
    "layout-conversion": (FEWER_WARPS, MORE_WARPS),
}
"""Options that often make such a kernel faster and do not test the finding."""

OF_THE_GRID: Final = ("idle-sms", "tail", "tiny-ctas")
"""Findings that only another grid can help: what leaves the grid as it is is no remedy of theirs."""

_WARPS: Final = (1, 2, 4, 8, 16, 32)
_STAGES: Final = (3, 4, 5)
_REGISTERS: Final = (168, 128, 96, 80, 64, 48)


@dataclass(frozen=True)
class Chosen:
    """The options and resources of a launch. registers: of a thread, 0 if not known."""

    num_warps: int
    num_stages: int
    maxnreg: int | None
    registers: int


@dataclass(frozen=True)
class Steps:
    """Values of one option, to be tried in this order. climbs: a value is tried only if the one before it was
    faster. findings: the names whose advice it is; empty if it tests no finding."""

    option: str
    values: tuple[Any, ...]
    climbs: bool
    findings: tuple[str, ...] = ()


def steps_for(findings: Iterable[str], chosen: Chosen, vary: Mapping[str, Sequence[Any]]) -> list[Steps]:
    """Changes to try against these findings, the first finding's first, each once; then the rest of
    `vary`."""
    found: dict[tuple[str, tuple[Any, ...]], Steps] = {}
    for finding in dict.fromkeys(findings):
        for remedy in REMEDIES.get(finding, ()):
            for steps in _steps(remedy, chosen, vary):
                known = found.get((steps.option, steps.values), steps).findings
                whole = Steps(steps.option, steps.values, steps.climbs, (*known, finding))
                found[steps.option, steps.values] = whole
        for remedy in ALSO_TRIED.get(finding, ()):
            for steps in _steps(remedy, chosen, vary):
                found.setdefault((steps.option, steps.values), steps)
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
    if remedy == WGMMA_WARPS:
        values = (each for each in (4, 8) if each != chosen.num_warps)
        return "num_warps", tuple(sorted(values, key=lambda each: abs(each - chosen.num_warps)))
    if remedy == MORE_REGISTERS:
        return "maxnreg", () if chosen.maxnreg is None else (None,)
    return "maxnreg", tuple(each for each in _REGISTERS if each < chosen.registers)
