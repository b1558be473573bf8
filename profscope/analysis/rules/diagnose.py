"""The findings of one configuration: every rule is asked, and what it finds is ranked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from profscope.analysis.cause import UNKNOWN_GAIN, Evidence, Finding, cited, of_peak
from profscope.analysis.limits import being
from profscope.analysis.rules import arithmetic, exchange, launch, memory, products, reuse, thresholds, unused
from profscope.analysis.rules.binary import by_binary
from profscope.analysis.rules.intervals import interval
from profscope.analysis.rules.kernel import Kernel
from profscope.analysis.rules.reached import reached
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


@dataclass(frozen=True)
class _Found:
    """symptom: 0 for a cause; symptoms are told in the order of theirs. share: on the emulator, of the cycles
    that wait at the finding's line."""

    finding: Finding
    symptom: int
    share: float

    @property
    def takes_from_roof(self) -> bool:
        return self.finding.gain.left <= 1 - thresholds.NOISE_PCT / 100


def diagnose(kernel: Kernel) -> Iterator[Finding]:
    """What holds it back: the largest gain first, then those whose gain is unknown, and last what the kernel
    has reached."""
    found = [
        _found(kernel, rule, where)
        for rule in RULES
        if not rule.is_silent(kernel)
        for where in rule.where(kernel)
    ]
    causes = _ranked(kernel, found)
    told: set[str] = set()
    places: set[tuple[str, str, int]] = set()
    for each in causes:
        finding = each.finding
        place = finding.finding, finding.file, finding.line
        if place in places:  # told already, by other evidence
            continue
        told.add(finding.finding)
        places.add(place)
        alike = {
            (other.finding.file, other.finding.line)
            for other in causes
            if other.finding.finding == finding.finding and other.finding.gain == finding.gain
        }
        yield _with_roof(kernel, each, len(alike))
    yield from (finding for finding in by_binary(kernel) if finding.finding not in told)
    yield from reached(
        kernel, _LESS if any(each.takes_from_roof for each in causes) else _BESIDE if causes else ""
    )


def silent_rules(kernel: Kernel) -> list[str]:
    """Rules that do not know the GPU's architecture: their names."""
    return [rule.name for rule in RULES if rule.is_silent(kernel) == "architecture"]


def _ranked(kernel: Kernel, found: list[_Found]) -> list[_Found]:
    """On a GPU those that save something, and symptoms if no cause explains them; on the emulator, whose
    cycles are a model, those at whose lines cycles pass."""
    least = thresholds.NOISE_PCT
    if kernel.emulated:
        seen = [each for each in found if 100 * each.share >= least]
        return sorted(seen, key=lambda each: (each.symptom, -each.share))
    causes = [each for each in found if not each.symptom and each.finding.gain.expected >= least]
    explained = max([least, *(each.finding.gain.high for each in causes)])
    causes += [each for each in found if each.symptom and each.finding.gain.expected > explained]
    return sorted(causes, key=lambda each: (-each.finding.gain.expected, each.symptom))


def _found(kernel: Kernel, rule: Rule, where: Where) -> _Found:
    name = where.name or rule.name
    evidence = cited(where.text or rule.text, **where.cites)
    finding = Finding(
        name, *where.place, evidence, where.advice or rule.advice, UNKNOWN_GAIN, rule.confidence
    )
    symptom = _SYMPTOMS.index(name) + 1 if name in _SYMPTOMS else 0
    if kernel.emulated:
        at_line = kernel.table.at_lines(where.place[0], {where.place[1]})
        share = (
            1.0 if where.rows is None else max(kernel.table.waits(at_line), kernel.table.samples_at(at_line))
        )
        return _Found(finding, symptom, share)
    edit = rule.removed(kernel, where)
    pct = 100 * kernel.resources.saved(edit)
    gain = interval(pct, rule.kind, kernel.table.sampled if "samples" in rule.needs else 0.0)
    roof = kernel.resources.binding
    gain = gain._replace(roof=roof, left=kernel.resources.kept(edit).get(roof, 1.0))
    is_low = gain.low < thresholds.NOISE_PCT
    return _Found(
        replace(finding, gain=gain, confidence="low" if is_low else rule.confidence), symptom, 0.0
    )


def _with_roof(kernel: Kernel, each: _Found, places: int) -> Finding:
    """With what it takes of the resource that binds the kernel: who waits for that waits anywhere, so that
    the gain may be larger than the samples at the finding's line. places: which the gain is of together."""
    finding, gain = each.finding, each.finding.gain
    if not each.takes_from_roof or not gain.roof:
        return finding
    own, used = finding.evidence, kernel.used[gain.roof]
    all_of_it = "this" if places == 1 else f"all {places} of these"
    said = cited(
        "{roof} at {used_of_roof}, {left_of_roof} without " + all_of_it,
        roof=being(gain.roof), used_of_roof=of_peak(used), left_of_roof=of_peak(used * gain.left),
    )  # fmt: skip
    if f"{being(gain.roof)} at {of_peak(used)}" in own.text:
        said = cited(
            "without " + all_of_it + ", it would be at {left_of_roof}", left_of_roof=of_peak(used * gain.left)
        )
    both = Evidence(
        f"{own.sentence}; {said.sentence}", {**own.quantities, **said.quantities}, {**own.names, **said.names}
    )
    return replace(finding, evidence=both)
