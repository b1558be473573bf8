"""The findings of one configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from profscope.analysis.cause import RESULT, Evidence, Finding, cited, of_peak
from profscope.analysis.diagnosis import (
    arithmetic_causes,
    binary_causes,
    launch_causes,
    masked_causes,
    memory_causes,
    programs_alike,
    repeated_loads,
    tensor_causes,
    thresholds,
    warp_causes,
)
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.limits import being

__all__ = ["diagnose"]

_CAUSES: Final = (
    *launch_causes.CAUSES,
    *masked_causes.CAUSES,
    *tensor_causes.CAUSES,
    *memory_causes.CAUSES,
    *programs_alike.CAUSES,
    *repeated_loads.CAUSES,
    *arithmetic_causes.CAUSES,
    *warp_causes.CAUSES,
)
# What is seen whatever the cause is: nothing is said of it if a cause may explain all of it.
_SYMPTOMS: Final = ("exposed-latency", "low-occupancy")
# How much they cost, L2 and DRAM decide, of which the emulator has none.
_TRAFFIC: Final = (
    "uncoalesced-load", "uncoalesced-store", "unvectorized-access", "tile-reread", "redundant-load",
    "atomics", "register-spills", "exposed-latency", "few-stages",
)  # fmt: skip
_LESS: Final = "less of this work, as the findings above say"
_BESIDE: Final = "less of this work, or what the findings above say"


def _rank(finding: Finding) -> tuple[float, int]:
    name = finding.finding
    return -finding.gain.expected, _SYMPTOMS.index(name) if name in _SYMPTOMS else -1


def _takes_from_roof(finding: Finding) -> bool:
    return finding.gain.left <= 1 - thresholds.NOISE_PCT / 100


def _with_roof(finding: Finding, facts: KernelFacts, places: int) -> Finding:
    """With what it takes of the resource that binds the kernel: who waits for that waits anywhere, so that
    the gain may be larger than the samples at the finding's line. places: which the gain is of together."""
    roof, left = finding.gain.roof, finding.gain.left
    if not _takes_from_roof(finding):
        return finding
    own, used = finding.evidence, facts.used[roof]
    all_of_it = "this" if places == 1 else f"all {places} of these"
    if_full = "if enough CTAs fill the GPU, " if facts.emulated else ""
    said = cited(
        if_full + "{roof} at {used_of_roof}, {left_of_roof} without " + all_of_it,
        roof=being(roof), used_of_roof=of_peak(used), left_of_roof=of_peak(used * left),
    )  # fmt: skip
    if f"{being(roof)} at {of_peak(used)}" in own.text:
        said = cited(
            "without " + all_of_it + ", it would be at {left_of_roof}", left_of_roof=of_peak(used * left)
        )
    both = Evidence(
        f"{own.sentence}; {said.sentence}", {**own.quantities, **said.quantities}, {**own.names, **said.names}
    )
    return replace(finding, evidence=both)


def diagnose(facts: KernelFacts) -> Iterator[Finding]:
    """What holds it back, by all causes: the largest gain first, then those whose gain nobody knows, and last
    what the kernel has reached."""
    found = [finding for cause in _CAUSES for finding in cause(facts)]
    causes = [
        each for each in found if each.finding not in _SYMPTOMS and each.gain.expected >= thresholds.NOISE_PCT
    ]
    explained = max((each.gain.high for each in causes), default=0.0)
    causes += [
        each
        for each in found
        if each.finding in _SYMPTOMS and each.gain.expected > max(explained, thresholds.NOISE_PCT)
    ]
    told: set[str] = set()
    places: set[tuple[str, str, int]] = set()
    for each in sorted(causes, key=_rank):
        place = each.finding, each.file, each.line
        if place in places:  # told already, by other evidence
            continue
        told.add(each.finding)
        places.add(place)
        is_modelled = facts.emulated and each.finding in _TRAFFIC
        is_low = is_modelled or each.gain.low < thresholds.NOISE_PCT
        alike = {(o.file, o.line) for o in causes if o.finding == each.finding and o.gain == each.gain}
        yield _with_roof(replace(each, confidence="low") if is_low else each, facts, len(alike))
    binary = (finding for cause in binary_causes.CAUSES for finding in cause(facts))
    yield from (each for each in binary if each.finding not in told)
    results = (each for each in found if each.finding.endswith(RESULT))
    advice = _LESS if any(map(_takes_from_roof, causes)) else _BESIDE if causes else ""
    yield from (replace(each, advice=advice or each.advice) for each in results)
