"""Findings tested by experiments: an experiment gives the gain, or refutes the finding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pandas as pd

from profscope.analysis.cause import (
    NOISE_PCT,
    UNKNOWN_GAIN,
    Confidence,
    Finding,
    Quantity,
    cited,
)
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.diagnose import RULES
from profscope.analysis.rules.intervals import of_repair
from profscope.instrument_passes.ablation.groups import GROUPS, SCATTERED
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF

__all__ = ["Outcome", "experiment_of", "with_experiments"]

_REFUTED_PCT: Final = 1.0
_SCATTERED: Final = ("uncoalesced-load", "uncoalesced-store")
_ADVICE: Final = next(rule.advice for rule in RULES if rule.name == _SCATTERED[0])  # one rule, two names


class _Test(NamedTuple):
    """how: the experiment. ops: how the names of its ops begin. repairs: whether it does what a repair does.
    bounds: whether no repair saves more."""

    how: str
    ops: tuple[str, ...]
    repairs: bool = False
    bounds: bool = True


_TESTS: Final[Mapping[str, _Test]] = {
    "uncoalesced-load": _Test(CONTIGUOUS, ("load", "async copy"), repairs=True),
    "uncoalesced-store": _Test(CONTIGUOUS, ("store",), repairs=True),
    "atomics": _Test(OFF, ("atomic",)),
    # A repair of these changes what is around them, too.
    "layout-conversion": _Test(OFF, ("convert layout",), bounds=False),
    "serial-reduction": _Test(OFF, ("reduce",), bounds=False),
    "slow-math": _Test(OFF, ("precise", "div", "sqrt", "exp", "log", "sin", "cos", "extern")),
}


class Outcome(NamedTuple):
    """refuted: a line for each finding that an experiment refutes."""

    findings: list[Finding]
    refuted: list[str]


def with_experiments(
    findings: Sequence[Finding],
    experiments: pd.DataFrame,
    counts: pd.DataFrame,
    *,
    sampled: bool,
    emulated: bool,
) -> Outcome:
    """The findings of one configuration beside its experiments, rows of `prof.experiments`. counts: rows of
    `prof.counts`. sampled: whether it has PC samples.

    If the experiment at a finding's line does what a repair would, what it saved, with its interval, is the
    gain, and the finding's basis is "measured"; a finding that such an experiment gives nothing is refuted,
    and left out. Otherwise the gain is at most what the experiment saved. Cycles of the emulator are no gain.
    An access that saves time at neighbouring addresses, and touches more sectors than it needs as far as they
    are counted, is a finding, also if nothing else was measured. Without samples scattered accesses are
    findings by their experiment alone.
    """
    kept: list[Finding] = []
    refuted: list[str] = []
    for finding in findings:
        test = _TESTS.get(finding.finding)
        own = experiment_of(finding.finding, finding.file, finding.line, experiments)
        if test is None or (own is None and (sampled or emulated or not test.repairs)):
            kept.append(finding)
            continue
        most = math.inf if own is None or emulated or not test.bounds else _most(own, test, experiments)
        if why := _why_refuted(finding, test, own, most, experiments):
            refuted.append(f"{finding.finding} at line {finding.line}: {why}")
        elif own is not None and test.repairs and not emulated:
            kept.append(_measured(finding, own))
        else:
            kept.append(_bounded(finding, most) if most < math.inf else finding)
    kept += _scattered(kept, experiments, counts, emulated=emulated)
    return Outcome([_together(each, experiments) for each in kept], refuted)


def _why_refuted(
    finding: Finding, test: _Test, own: Mapping[Any, Any] | None, most: float, experiments: pd.DataFrame
) -> str:
    """What its experiment says against a finding; "" if nothing does. most: that a repair saves."""
    if own is None:
        return _why_untested(finding, experiments)
    if test.repairs:
        is_refuted = own["high_pct"] < _REFUTED_PCT and not _save_together(experiments)
        return f"{test.how} saves {own['saved_pct']:.1f} %" if is_refuted else ""
    return f"{test.how} saves at most {most:.1f} %" if most < NOISE_PCT else ""


def experiment_of(finding: str, file: str, line: int, experiments: pd.DataFrame) -> Mapping[Any, Any] | None:
    """The valid experiment at this line that tests such a finding, the one that saved most; None if there is
    none."""
    test = _TESTS.get(finding)
    if test is None:
        return None
    at_line = experiments[
        (experiments["experiment"] == test.how)
        & (experiments["file"] == file)
        & (experiments["line"] == line)
        & experiments["op"].str.startswith(test.ops)
    ]
    if not test.repairs and not at_line["valid"].all():
        return None  # of several ops that cost something together some are not known
    at_line = at_line[at_line["valid"] & at_line["saved_pct"].notna()]
    rows: list[Mapping[Any, Any]] = at_line.to_dict("records")  # type: ignore[assignment]  # not in its stubs
    return max(rows, key=lambda row: float(row["saved_pct"]), default=None)


def _most(own: Mapping[Any, Any], test: _Test, experiments: pd.DataFrame) -> float:
    """What a repair saves at most: of several atomics the others are still in the way while one is left out,
    so it is what all of global memory saves."""
    if test.ops != ("atomic",):
        return float(own["high_pct"])
    timed = experiments[experiments["valid"] & (experiments["experiment"] == OFF)]
    several = timed.loc[timed["op"].str.startswith(test.ops), "line"].nunique() > 1
    whole = timed[timed["op"] == GROUPS["memory"]]["high_pct"]
    return max(map(float, (own["high_pct"], *(whole if several else ()))))


def _measured(finding: Finding, own: Mapping[Any, Any]) -> Finding:
    """With what its experiment saved as the gain."""
    expected, low, high = of_repair(own["saved_pct"], own["low_pct"], own["high_pct"])[:3]
    gain = finding.gain._replace(expected=expected, low=low, high=high)
    confidence: Confidence = "high" if low >= NOISE_PCT else "low"
    return replace(finding, gain=gain, weight=expected, confidence=confidence, basis="measured")


def _bounded(finding: Finding, most: float) -> Finding:
    """With a gain of at most so much; the upper end alone if it was unknown."""
    most, gain = max(0.0, most), finding.gain
    if math.isnan(gain.high):
        return replace(finding, gain=gain._replace(high=most))
    expected, low, high = (min(each, most) for each in gain[:3])
    gain = gain._replace(expected=expected, low=low, high=high)
    return replace(finding, gain=gain, weight=min(finding.weight, most))


def _together(finding: Finding, experiments: pd.DataFrame) -> Finding:
    """A scattered access whose gain was measured, beside others: who mends one mends them all, and what all
    of them cost is then the gain. Without a valid experiment with all of them it is at least its own, at most
    what all of global memory saves, and most likely their sum."""
    if finding.basis != "measured":
        return finding
    whole = _of_all_scattered(experiments)
    if not len(whole):
        return _summed(finding, experiments)
    own = whole.iloc[0].to_dict()
    said = cited(
        "with all scattered lines at neighbouring addresses {all_saved} less",
        all_saved=Quantity(own["saved_pct"], "% of the time"),
    )
    return _measured(replace(finding, evidence=finding.evidence.beside(said)), own)


def _summed(finding: Finding, experiments: pd.DataFrame) -> Finding:
    """A scattered access beside others that were tested one by one."""
    timed = experiments[experiments["valid"]]
    worth = timed[(timed["experiment"] == CONTIGUOUS) & (timed["low_pct"] >= NOISE_PCT)]
    whole = timed.loc[timed["op"] == GROUPS["memory"], "high_pct"]
    if len(worth) < 2 or not len(whole):
        return finding
    most = float(whole.iloc[0])
    expected = max(finding.gain.expected, min(float(worth["saved_pct"].sum()), most))
    gain = finding.gain._replace(expected=expected, high=max(expected, most))
    said = cited("so would {others} beside it", others=Quantity(len(worth) - 1, "lines"))
    return replace(
        finding, gain=gain, weight=expected, basis="modelled", evidence=finding.evidence.beside(said)
    )


def _why_untested(finding: Finding, experiments: pd.DataFrame) -> str:
    """Why there is no experiment with other addresses at its line."""
    at_line = (experiments["file"] == finding.file) & (experiments["line"] == finding.line)
    whys = experiments.loc[at_line & (experiments["experiment"] == CONTIGUOUS), "why_not"].tolist()
    return str(whys[0]) if whys else "no experiment with neighbouring addresses tests it"


def _of_all_scattered(experiments: pd.DataFrame) -> pd.DataFrame:
    """The valid experiment with all scattered lines at neighbouring addresses; no row if there is none."""
    return experiments[(experiments["op"] == SCATTERED) & experiments["valid"]]


def _save_together(experiments: pd.DataFrame) -> bool:
    """Whether that saves time."""
    return bool((_of_all_scattered(experiments)["low_pct"] >= NOISE_PCT).any())


def _scattered(
    findings: Sequence[Finding], experiments: pd.DataFrame, counts: pd.DataFrame, *, emulated: bool
) -> Iterator[Finding]:
    """Findings of accesses that save time at neighbouring addresses and of which no finding says so. Where
    only all of them together save it, those that touch more sectors than they need."""
    names = (*_SCATTERED, "unvectorized-access")
    known = {(each.file, each.line) for each in findings if each.finding in names}
    is_made = experiments["valid"] & (experiments["experiment"] == CONTIGUOUS)
    made = experiments[is_made & (experiments["op"] != SCATTERED)]
    save_together = _save_together(experiments)
    for own in made.to_dict("records"):
        place = own["file"], own["line"]
        if place in known:
            continue
        here = counts[(counts["file"].astype(str) == place[0]) & (counts["line"] == place[1])]
        touched, needed = float(here["sectors"].sum()), float(here["sectors_ideal"].sum())
        is_more = touched >= thresholds.EXCESS * needed
        if own["low_pct"] >= NOISE_PCT and (is_more or not needed):
            evidence = cited(
                "with as many bytes at neighbouring addresses a launch takes {saved} less",
                saved=Quantity(own["saved_pct"], "% of the time"),
            )
        elif save_together and is_more and needed:
            evidence = cited(
                "{touched} where {needed} would do",
                touched=Quantity(touched / here["launches"].max(), "sectors"),
                needed=Quantity(needed / here["launches"].max(), "sectors"),
            )
        else:
            continue
        name = _SCATTERED[own["op"].startswith("store")]
        weight = max(0.0, float(own["saved_pct"]))
        found = Finding(name, *place, evidence, _ADVICE, UNKNOWN_GAIN, "high", weight)
        yield found if emulated else _measured(found, own)
