"""Findings: what slows each kernel, with evidence, a change to try, and the largest gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from profscope.analysis.answers import (
    Answer,
    FindingsTable,
    is_part,
    joined_frame,
    refused_evidence,
    refused_experiments,
)
from profscope.analysis.cause import NOISE_PCT, RESULT, Finding
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.ctas import longest_first
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.variants import rows_of
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool

__all__ = [
    "FINDING_DTYPES",
    "OF_THE_EMULATOR",
    "FindingsOf",
    "findings",
    "findings_frame",
    "findings_of",
    "of_each_kernel",
]

T = TypeVar("T")

FINDING_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "finding": "str",
    "file": "str",
    "line": "int32",
    "evidence": "str",
    "evidence_values": "object",
    "advice": "str",
    "gain_pct": "float64",
    "gain_low_pct": "float64",
    "gain_high_pct": "float64",
    "program_pct": "float64",
    "confidence": "str",
    "basis": "str",
}

OF_THE_EMULATOR: Final = " (cycles of the emulator's cost model)"
"""Behind the evidence of what the emulator ran."""

_NOT_LOOKED_FOR: Final = "no finding, but most causes were not looked for"
_MOST_OVERWRITTEN: Final = 0.1  # of warp time


def findings(tables: Tables) -> pd.DataFrame:
    """One row per cause that slows a kernel, the largest saving of the program's time first; the columns of
    FINDING_DTYPES.

    kernel, variant: as in the summary. finding: a fixed name (docs/findings.md). file, line: where.
    evidence: a sentence with figures. evidence_values: these figures by name, each with its value and unit,
    such as {"waiting": {"value": 90.4, "unit": "% of samples"}}. advice: a change to try. gain_pct: the
    expected saving, in percent of the kernel's time, 0 to 100, 0 for a roof that is reached ("dram-bound"),
    missing if it is unknown, as on the emulator. gain_low_pct, gain_high_pct: a 90 % interval
    (`rules/intervals.py`); the upper end alone if it is too wide to state a gain. program_pct: gain_pct in
    percent of the time of all kernels' recorded launches, missing if that time is unknown. confidence:
    "high", "medium" or "low". basis: "measured" if an experiment at the line (`prof.experiments`) equals a
    repair: the gain is its saving; else "modelled", as on the emulator.

    Each cause has named evidence: hardware counters, instruction counts and PC samples
    (`session(evidence=True)`, or the emulator, which has no counters), without permission the kernel's own
    counts and experiments, the times of CTAs and warps, and the TTGIR. A cause without its evidence has no
    row. Gains below `NOISE_PCT` are no findings.

    attrs["not_measured"]: list of str, missing evidence. attrs["refuted"]: list of str, findings that are
    left out since their experiment saves nothing. attrs["clean"]: a text for each kernel without a finding,
    by "kernel", or "kernel #variant" if it has several. attrs["launches"]: how many were recorded.
    """
    return findings_frame(tables, of_each_kernel(tables, partial(findings_of, tables)))


def of_each_kernel(
    tables: Tables, ask: Callable[[KernelAnalysis | SkippedKernel], T], known: SummedSpans | None = None
) -> list[T]:
    """The answers from the analysis of each configuration, while that of the next one is made. known: sums of
    the summary, if known."""
    with worker_pool() as pool:
        return list(in_order(pool, ask, kernel_analyses(tables, known=known)))


class FindingsOf(NamedTuple):
    """Findings of one configuration: an answer, its name, a text if there are none (else ""), and a line for
    each finding that an experiment refutes."""

    answer: Answer
    name: str
    clean: str
    refuted: Sequence[str] = ()


def findings_of(tables: Tables, analysis: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration of the tables."""
    kernel, variant = analysis.kernel, analysis.variant
    found, missing, clean = _diagnosed(tables, analysis)
    found, refuted = _tested(tables, kernel, variant, found)
    rows = [_row(tables, kernel, variant, each) for each in found]
    name = _name(tables, kernel, variant)
    answer = Answer(rows, [f"{name}: {text}" for text in missing])
    known = "" if rows else "; left out: ".join([clean(), *refuted])
    return FindingsOf(answer, name, known, [f"{name}: {text}" for text in refuted])


def _diagnosed(
    tables: Tables, analysis: KernelAnalysis | SkippedKernel
) -> tuple[list[Finding], list[str], Callable[[], str]]:
    """What rules find in one configuration, what is missing, and what is known if nothing is found, worked
    out when it is asked for."""
    # Here, since they read the TTGIR, and a trace is shown without its parser if findings are not asked for.
    from profscope.analysis.rules.diagnose import diagnose, silent_rules
    from profscope.analysis.rules.kernel import kernel_of, missing

    if isinstance(analysis, SkippedKernel):
        return _not_judged(analysis.why)
    if is_part(tables.metadata, analysis.kernel, analysis.variant):
        return _not_judged(refused_evidence(tables.metadata), "not judged")
    seen = kernel_of(analysis)
    if seen is None:
        return _not_judged("the size of its grid is not known")
    silent = list(silent_rules(seen))
    said = [*_overwritten(analysis), *missing(seen), *silent]

    def clean() -> str:
        return "; ".join([_clean(tables.experiments, analysis, seen.known, seen.waits_basis), *silent])

    return list(diagnose(seen)), said, clean


def _not_judged(why: str, what: str = _NOT_LOOKED_FOR) -> tuple[list[Finding], list[str], Callable[[], str]]:
    return [], [f"all: {why}"], lambda: f"{what}: {why}"


def _tested(
    tables: Tables, kernel: str, variant: int, found: list[Finding]
) -> tuple[list[Finding], list[str]]:
    """The findings of one configuration, and those that its experiments refute."""
    own = rows_of(tables.experiments, kernel, variant)
    if not len(own):
        return found, []
    counts, samples = (rows_of(table, kernel, variant) for table in (tables.counts, tables.samples))
    from profscope.analysis.rules.tested import with_experiments  # which reads the TTGIR's parser, too

    return with_experiments(found, own, counts, sampled=len(samples) > 0, emulated=tables.emulated)


def _overwritten(analysis: KernelAnalysis) -> list[str]:
    lost = analysis.spans.own[analysis.of_kind("gap")].sum()
    if lost <= _MOST_OVERWRITTEN * analysis.warp_cycles:
        return []
    return ["iterations whose records were overwritten (a larger memory= keeps more)"]


def _clean(
    experiments: pd.DataFrame, analysis: KernelAnalysis, known: frozenset[str], waits_basis: str
) -> str:
    nothing = f"no finding: no known cause costs {NOISE_PCT:.0f} % of the time"
    if analysis.emulated:
        return f"{nothing}, by counts and the cost model; caches and registers are not modelled"
    if known.issuperset(("use", "counts", "waits")):
        counted = "counters, counts" if "traffic" in known else "own counts"
        if waits_basis == "samples":
            return f"{nothing}, by {counted} and PC samples"
        return f"{nothing}, by {counted} and experiments{_untested(analysis, experiments)}"
    at_line = _most_of_the_time(analysis)
    unknown = f"; unknown: {at_line.text}, `profscope explain` can test it" if at_line else ""
    return f"{_NOT_LOOKED_FOR}: session(evidence=True) looks for them{unknown}"


class _Line(NamedTuple):
    """text: how much of the time is there."""

    file: str
    line: int
    text: str


def _most_of_the_time(analysis: KernelAnalysis) -> _Line | None:
    """The line with most of the time; None if no span has a line."""
    sites, own = analysis.sites, analysis.total(analysis.spans.own)
    by_line: dict[tuple[str, int], float] = {}
    for file, line, time in zip(sites["file"].tolist(), sites["line"].tolist(), own.tolist(), strict=True):
        if line > 0:
            by_line[file, line] = by_line.get((file, line), 0) + time
    if not by_line:
        return None
    (file, line), most = max(by_line.items(), key=itemgetter(1))
    share = 100 * most / analysis.warp_cycles
    return _Line(file, line, f"{share:.0f} % of the time is at line {line}")


def _untested(analysis: KernelAnalysis, experiments: pd.DataFrame) -> str:
    """Where most of the time is, if experiments that were to tell what it costs could not, and why."""
    most = _most_of_the_time(analysis)
    if most is None:
        return ""
    own = rows_of(experiments, analysis.kernel, analysis.variant)
    own = own[(own["file"] == most.file) & (own["line"] == most.line) & (own["experiment"] == "off")]
    if not len(own) or own["valid"].any():
        return ""
    return f"; unknown: {most.text}, which no experiment tells: {own['why_not'].iloc[0]}"


def findings_frame(tables: Tables, told: Sequence[FindingsOf]) -> FindingsTable:
    """The table that `findings` returns, in its order."""
    table = joined_frame((each.answer for each in told), FINDING_DTYPES)
    attrs = table.attrs | {"clean": {each.name: each.clean for each in told if each.clean}}
    attrs |= {"refuted": [text for each in told for text in each.refuted]}
    attrs |= {"launches": len(tables.launches)}
    attrs["not_measured"] += refused_experiments(tables.metadata)
    time = longest_first(tables, tables.launches)
    share = time / time.sum() if time.sum() > 0 else time.where(time > 0)
    own = share.reindex(pd.MultiIndex.from_frame(table[["kernel", "variant"]]))
    table["program_pct"] = table["gain_pct"] * own.to_numpy(np.float64)
    weights = np.array([row["weight"] for each in told for row in each.answer.rows])
    order = np.lexsort((-weights, -weights * own.to_numpy(np.float64)))
    ranked = table.iloc[order]
    is_result = ranked["finding"].str.endswith(RESULT)  # a roof that is reached: it comes last
    shown = FindingsTable(pd.concat([ranked[~is_result], ranked[is_result]], ignore_index=True))
    shown.attrs = attrs
    return shown


def _row(tables: Tables, kernel: str, variant: int, finding: Finding) -> dict[str, Any]:
    row = {name: getattr(finding, name) for name in FINDING_DTYPES if hasattr(finding, name)}
    evidence = finding.evidence
    said = evidence.text + (OF_THE_EMULATOR if tables.emulated else "")
    row |= {"evidence": said, "evidence_values": evidence.values, "gain_pct": finding.gain.expected}
    row |= {"gain_low_pct": finding.gain.low, "gain_high_pct": finding.gain.high, "weight": finding.weight}
    return row | {"kernel": kernel, "variant": variant, "program_pct": np.nan}


def _name(tables: Tables, kernel: str, variant: int) -> str:
    return f"{kernel} #{variant}" if kernel in _of_several_variants(tables) else kernel


@asked_once
def _of_several_variants(tables: Tables) -> frozenset[str]:
    """The kernels that were launched in several configurations."""
    each = tables.launches[["kernel", "variant"]].drop_duplicates()["kernel"]
    return frozenset(each[each.duplicated()])
