"""The findings of one configuration: all rules, with their findings ranked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from profscope.analysis.cause import (
    NO_GAIN,
    UNKNOWN_GAIN,
    Evidence,
    Finding,
    Quantity,
    cited,
    of_peak,
    of_samples,
)
from profscope.analysis.limits import RESOURCES, being
from profscope.analysis.resources import Edit
from profscope.analysis.rules import (
    arithmetic,
    exchange,
    launch,
    memory,
    products,
    reuse,
    thresholds,
    unused,
)  # fmt: skip
from profscope.analysis.rules.intervals import interval
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.analysis.rules.rule import Rule, Where

__all__ = ["RULES", "diagnose", "silent_rules"]

RULES: Final[tuple[Rule, ...]] = (
    *launch.RULES,
    *unused.RULES,
    *products.RULES,
    *exchange.RULES,
    *memory.RULES,
    *reuse.RULES,
    *arithmetic.RULES,
)
_SYMPTOMS: Final = ("exposed-latency", "low-occupancy")
"""They are seen whatever the cause is, so nothing is said of them if a cause may explain all of it."""
_LESS: Final = "less of this work, as the findings above say"
_BESIDE: Final = "less of this work, or what the findings above say"

_OF_THE_TIME: Final = "% of the time (by experiments)"
_STALL: Final = re.compile(r" \(`\w+`\)")
_NAMES: Final = {"tensor": "tensor", "dram": "dram", "l2": "l2", "shared": "l1", "l1": "l1"}
_WORK: Final = {"dram": "sectors", "l2": "sectors", "l1": "sectors", "shared": "wavefronts"}


def diagnose(kernel: Kernel) -> Iterator[Finding]:
    """The findings of a kernel: the largest gain first, then unknown gains, then roofs."""
    asked = [rule for rule in RULES if not rule.is_silent(kernel)]
    found = [_finding(kernel, rule, where) for rule in asked for where in rule.where(kernel)]
    causes = _ranked(found, emulated=kernel.emulated)
    places: set[tuple[str, str, int]] = set()
    for each in causes:
        place = each.finding, each.file, each.line
        if place in places:  # told already, by other evidence
            continue
        places.add(place)
        alike = {(o.file, o.line) for o in causes if o.finding == each.finding and o.gain == each.gain}
        yield _with_roof(kernel, each, len(alike))
    told = {part for name, file, line in places for part in (name, (file, line))}
    for each in found:
        if math.isnan(each.weight) and not told & {each.finding, (each.file, each.line)}:
            yield replace(each, weight=0.0)
    advice = _LESS if any(map(_takes_from_roof, causes)) else _BESIDE if causes else ""
    yield from _reached(kernel, advice)


def silent_rules(kernel: Kernel) -> Iterator[str]:
    """A line on the rules that say nothing of this GPU, of a kernel that they might be about."""
    names = [rule.name for rule in RULES if rule.is_silent(kernel) == "architecture"]
    if names and kernel.graph.named(DOTS):
        yield f"{', '.join(names)}: these rules know compute capability 9.0 alone"


def _ranked(found: list[Finding], *, emulated: bool) -> list[Finding]:
    """Those that save something, the most first; symptoms if they are more than causes may explain, and not
    on the emulator: small launches hide no latency, whatever the kernel."""
    least = thresholds.NOISE_PCT
    causes = [each for each in found if each.finding not in _SYMPTOMS and each.weight >= least]
    explained = max([least, *(each.gain.high for each in causes)])
    if not emulated:
        causes += [each for each in found if each.finding in _SYMPTOMS and each.weight > explained]
    order = {name: at for at, name in enumerate(_SYMPTOMS)}
    return sorted(causes, key=lambda each: (-each.weight, order.get(each.finding, -1)))


def _finding(kernel: Kernel, rule: Rule, where: Where) -> Finding:
    """What a rule says of a place."""
    name = where.name or rule.name
    evidence = cited(rule.text, **where.cites)
    if kernel.waits_basis == "experiments":
        evidence = _by_experiments(evidence)
    advice, edit = where.advice or rule.advice, where.edit
    finding = Finding(name, *where.place, evidence, advice, UNKNOWN_GAIN, rule.confidence, math.nan)
    if edit is None:
        return finding
    if kernel.emulated:
        return replace(finding, **_weighed(kernel, rule, where))
    sampled = kernel.table.sampled if "waits" in rule.needs else 0.0
    weight, roof = 100 * kernel.resources.saved(edit), kernel.resources.binding
    by_experiments = kernel.waits_basis == "experiments"
    gain = interval(name, weight, sampled, by_experiments=by_experiments)
    is_low = gain.low < thresholds.NOISE_PCT
    if gain.high - gain.low > thresholds.WIDEST_PCT:
        gain = gain._replace(expected=math.nan, low=math.nan)
    gain = gain._replace(roof=roof, kept=kernel.resources.kept(edit).get(roof, 1.0))
    return replace(finding, gain=gain, weight=weight, confidence="low" if is_low else rule.confidence)


def _by_experiments(evidence: Evidence) -> Evidence:
    """Shares of samples, which are those of the time that experiments saved, and no stall has a name."""
    told = {
        name: each._replace(unit=_OF_THE_TIME) if each.unit == of_samples(0).unit else each
        for name, each in evidence.quantities.items()
    }
    return Evidence(_STALL.sub("", evidence.sentence), told, evidence.names)


def _weighed(kernel: Kernel, rule: Rule, where: Where) -> dict[str, Any]:
    """On the emulator, whose cycles are a model, a finding has no gain. Its weight is that of the cycles that
    wait at its line, if the edit takes away enough of anything; what is of the launch as a whole comes last,
    with low confidence, as launches are small and the device is a choice."""
    table, least, edit = kernel.table, thresholds.NOISE_PCT, where.edit or Edit(0.0)
    left = min(1 - edit.removed, *kernel.resources.kept(edit).values())
    if 100 * (1 - left) < least:
        return {"weight": 0.0}
    if rule.of_launch:
        return {"weight": least, "confidence": "low"}
    here = table.at_lines(where.place[0], {where.place[1]})
    return {"weight": max(least, 100 * table.waits(here), 100 * table.samples_at(here))}


def _takes_from_roof(finding: Finding) -> bool:
    return finding.gain.kept <= 1 - thresholds.NOISE_PCT / 100


def _with_roof(kernel: Kernel, finding: Finding, places: int) -> Finding:
    """With what it takes of the resource that binds the kernel: who waits for that waits anywhere, so that
    the gain may be larger than the samples at the finding's line. places: which the gain is of together."""
    gain = finding.gain
    if not _takes_from_roof(finding) or not gain.roof:
        return finding
    own, used = finding.evidence, kernel.used[gain.roof]
    all_of_it = "this" if places == 1 else f"all {places} of these"
    said = cited(
        "{roof} at {used_of_roof}, {left_of_roof} without " + all_of_it,
        roof=being(gain.roof), used_of_roof=of_peak(used), left_of_roof=of_peak(used * gain.kept),
    )  # fmt: skip
    if f"{being(gain.roof)} at {of_peak(used)}" in own.text:
        said = cited(
            "without " + all_of_it + ", it would be at {left_of_roof}", left_of_roof=of_peak(used * gain.kept)
        )
    return replace(finding, evidence=own.beside(said))


def _reached(kernel: Kernel, advice: str) -> Iterator[Finding]:
    """The resource that binds the kernel, if one does: a result, and no gain. advice: in place of
    the general one, if other findings say what to do. Of the emulator there is none: its resources are those
    of a model."""
    resource = kernel.resources.binding
    if (
        not resource
        or kernel.emulated
        or kernel.used[resource] < thresholds.BOUND
        or "counts" not in kernel.known
    ):
        return
    used, table = kernel.used[resource], kernel.table
    place = table.place_of_most(table.amount(_WORK.get(resource, "executed"))) or kernel.place
    part = min(1.0, used / thresholds.attainable(resource))
    general = (
        "only less of this work is faster: the hardware does no more of it" if used >= thresholds.NEAR_ROOF
        else "less of this work, the busiest resource; it is not at its limit, so waits count, too"
    )  # fmt: skip
    yield Finding(
        f"{_NAMES.get(resource, 'issue')}-bound", *place,
        cited(
            "{what}: {used}, {reached}", what=RESOURCES[resource][1], used=of_peak(used),
            reached=Quantity(100 * part, "% of what good kernels reach"),
        ),
        advice or general, NO_GAIN, "high",
    )  # fmt: skip
