"""What holds each kernel back, with evidence, what to try, and what it can bring at most."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.analysed_kernels import kernel_analyses
from profscope.analysis.answers import Answer, WholeTexts, joined_frame
from profscope.analysis.cause import NOISE_PCT, Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis, SkippedKernel
from profscope.analysis.launch_durations import longest_first
from profscope.analysis.roof import Roof, roof_of
from profscope.analysis.stalls import stalled_on
from profscope.analysis.summing import SummedSpans
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool

__all__ = [
    "FINDING_DTYPES",
    "OF_THE_EMULATOR",
    "FindingsOf",
    "causes_of_findings",
    "findings",
    "findings_frame",
    "findings_of",
    "findings_with",
]

FINDING_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "finding": "str",
    "file": "str",
    "line": "int32",
    "evidence": "str",
    "advice": "str",
    "gain_pct": "float64",
    "program_pct": "float64",
    "confidence": "str",
}

OF_THE_EMULATOR: Final = " (cycles of the emulator's cost model)"
"""Behind the evidence of what the emulator ran."""

_NOT_LOOKED_FOR: Final = "no finding, but most causes were not looked for"
# What is wrong whatever it costs: these stand without a gain.
_ALWAYS: Final = ("nan", "infinity", "denormals", "saturation")
# What an observed kernel has reached: a result, not a fault.
_RESULT: Final = "-bound"
# What says that there is more to gain, but not where it goes: it stands where nothing else does.
_LAST: Final = ("below-roof",)
# What says how long something takes, which is news whatever the cause.
_LEVELS: Final = "bimodal-spans"
# What says where a CTA's time goes, but not why.
_PLACE: Final = "dominant-span"
# Causes that lie in a CTA.
_CTA_CAUSES: Final = (
    "atomics", "bank-conflict", "bimodal-spans", "exposed-load", "few-stages", "late-warp",
    "layout-conversion", "redundant-load", "serial-stage", "spills", "starving-partition", "uncoalesced-load",
)  # fmt: skip
# What is one cause is one finding: a finding of the first name makes those of the others superfluous, of
# the same kernel, or ("line") where they share a line; if its gain is at least half of theirs.
_EXPLAINS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("uncoalesced-load", "line", ("redundant-load", "exposed-load", "bimodal-spans")),
    ("uncoalesced-load", "kernel", ("outliers", "low-residency")),
    ("redundant-load", "line", ("exposed-load", "bimodal-spans")),
    ("bank-conflict", "kernel", ("layout-conversion", "serial-stage", "late-warp")),
    ("atomics", "kernel", ("late-warp", "outliers")),
    ("atomics", "line", ("bimodal-spans",)),
    ("late-warp", "kernel", ("bimodal-spans",)),
    ("bimodal-spans", "kernel", ("outliers",)),
    ("spills", "kernel", ("low-residency", "exposed-load", "uncoalesced-load", "outliers")),
    ("idle-sms", "kernel", ("tail",)),
    ("load-imbalance", "kernel", ("tail", "outliers", "bimodal-spans")),
    (
        "starving-partition",
        "kernel",
        (
            "few-stages",
            "exposed-load",
            "serial-stage",
            "low-residency",
            "late-warp",
            "outliers",
            "bimodal-spans",
        ),
    ),
    (
        "exposed-load",
        "kernel",
        ("few-stages", "serial-stage", "low-residency", "outliers", "prologue", "late-warp"),
    ),
    ("exposed-load", "line", ("bimodal-spans",)),
    ("few-stages", "kernel", ("serial-stage", "low-residency", "outliers")),
    ("few-stages", "line", ("bimodal-spans",)),
    ("serial-stage", "kernel", ("low-residency",)),
    # A way through a CTA always has a heaviest span: it is news where nothing else is.
    *((name, "kernel", (_PLACE,)) for name in _CTA_CAUSES),
)


def findings(tables: Tables) -> pd.DataFrame:
    """One row per cause that holds a kernel back, what saves most of the program's time first; the columns
    of FINDING_DTYPES.

    kernel, variant: as in the summary. finding: a fixed name (docs/findings.md). file, line: where.
    evidence: a sentence with figures. advice: what to try. program_pct: gain_pct in percent of the time of
    all kernels' recorded launches, missing if that time is not known. confidence: "high", "medium" or "low",
    by rules that the docstrings state.

    If the hardware has observed a configuration (`session(hardware=True)`), its findings rest on counters,
    instruction counts and PC samples: gain_pct is what is expected to be saved, in percent, 0 to 100
    (`diagnosis/gains.py`), 0 for a roof that is reached ("dram-bound"). Otherwise they rest on spans, and
    gain_pct is an upper bound by the model in the docstring of the cause; where the flops of dots or, without
    dots, the bytes at the peak of memory take up the rest of the time, it is at most what they leave.
    Gains below `NOISE_PCT` are no findings. Spans are of corrected durations if these are known.

    attrs["not_measured"]: list of str, what could not be judged and why. attrs["clean"]: by kernel, or
    "kernel #variant" where it has several, what is known of those without a finding.
    """
    return findings_with(tables, None)


def findings_with(tables: Tables, known: SummedSpans | None) -> pd.DataFrame:
    """`findings`, with what the summary adds up, where that is known."""
    causes_of_findings()  # imported before there are threads
    judged = kernel_analyses(tables, known=known)
    with worker_pool() as pool:  # a configuration is judged while the next one's spans are taken
        return findings_frame(tables, list(in_order(pool, partial(findings_of, tables), judged)))


class FindingsOf(NamedTuple):
    """One configuration's: an answer, its name, and what is known where there are none, else ""."""

    answer: Answer
    name: str
    clean: str


def findings_of(tables: Tables, judged: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration of the tables."""
    kernel, variant = judged.kernel, judged.variant
    if isinstance(judged, KernelAnalysis):
        observed = _observed(tables, judged) if len(tables.counters) else None
        if observed is not None:
            return observed
        roof, said = roof_of(judged), list(_said(judged))
    else:
        roof, said = None, [NotMeasured(f"all: {judged.why}")]
    name = _name(tables, kernel, variant)
    missing = dict.fromkeys(f"{name}: {each.text}" for each in said if isinstance(each, NotMeasured))
    kept = merged(_limited((each for each in said if isinstance(each, Finding)), roof))
    if isinstance(judged, KernelAnalysis):
        clean = _clean(roof, tables.emulated)
    else:
        clean = f"{_NOT_LOOKED_FOR}: {judged.why}"
    rows = [_row(tables, kernel, variant, each) for each in kept]
    return FindingsOf(Answer(rows, list(missing)), name, "" if kept else clean)


def _observed(tables: Tables, judged: KernelAnalysis) -> FindingsOf | None:
    """Those that rest on the hardware's counters, counts and samples; None if it has not observed the
    configuration."""
    # Here, since they read the TTGIR, and a trace without counters is shown without its parser.
    from profscope.analysis.diagnosis.diagnose import diagnose
    from profscope.analysis.diagnosis.facts import facts_of

    facts = facts_of(judged)
    if facts is None:
        return None
    kernel, variant = judged.kernel, judged.variant
    name = _name(tables, kernel, variant)
    kept = [each for each in diagnose(facts) if each.gain_pct >= NOISE_PCT or each.finding.endswith(_RESULT)]
    rows = [
        {column: getattr(each, column) for column in FINDING_DTYPES if hasattr(each, column)}
        | {"kernel": kernel, "variant": variant, "program_pct": np.nan}
        for each in kept
    ]
    clean = "no finding: nothing above 5 % of the time, by counters, counts and PC samples"
    return FindingsOf(Answer(rows, []), name, "" if kept else clean)


def findings_frame(tables: Tables, told: Sequence[FindingsOf]) -> WholeTexts:
    """The table that `findings` returns, in its order."""
    table = joined_frame((each.answer for each in told), FINDING_DTYPES)
    attrs = table.attrs | {"clean": {each.name: each.clean for each in told if each.clean}}
    time = longest_first(tables, tables.launches)
    share = time / time.sum() if time.sum() > 0 else time.where(time > 0)
    own = share.reindex(pd.MultiIndex.from_frame(table[["kernel", "variant"]]))
    table["program_pct"] = table["gain_pct"] * own.to_numpy(np.float64)
    order = ["program_pct", "gain_pct"]
    shown = WholeTexts(table.sort_values(order, ascending=False, kind="stable", ignore_index=True))
    shown.attrs = attrs
    return shown


def merged(said: Iterable[Finding]) -> list[Finding]:
    """Those above noise that no other one explains, each name at a line once, the largest gain first."""
    kept = sorted(
        (each for each in said if each.gain_pct >= NOISE_PCT or each.finding in _ALWAYS),
        key=lambda each: -each.gain_pct,
    )
    first: dict[tuple[str, int], Finding] = {}
    for each in kept:
        first.setdefault((each.finding, each.line), each)
    left = [each for each in first.values() if not any(_explains(other, each) for other in first.values())]
    left = [_with_levels(each, first.values()) for each in left]
    known = [each for each in left if each.finding not in _LAST]
    return known if any(each.finding not in _ALWAYS for each in known) else left


def _with_levels(winner: Finding, others: Iterable[Finding]) -> Finding:
    """A finding that says, too, that what it is about takes either of two times."""
    said = [each.evidence for each in others if each.finding == _LEVELS and _explains(winner, each)]
    return replace(winner, evidence="; ".join([winner.evidence, *said[:1]]))


def _explains(winner: Finding, other: Finding) -> bool:
    if other.finding == _PLACE and winner.finding in _CTA_CAUSES and winner.line == other.line:
        return True  # one wait, and the winner says why it is there
    for name, where, others in _EXPLAINS:
        if winner.finding == name and other.finding in others and winner.gain_pct >= other.gain_pct / 2:
            lines = {winner.line, *winner.also}
            if where == "kernel" or lines & {other.line, *other.also}:
                return True
    return False


def _said(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    if judged.spans.own[judged.of_kind("gap")].sum() > 0.1 * judged.warp_cycles:
        yield NotMeasured("iterations whose records were overwritten (a larger memory= keeps more)")
    for ask in causes_of_findings():
        yield from ask(judged)


@cache
def causes_of_findings() -> tuple[Callable[[KernelAnalysis], Iterator[Finding | NotMeasured]], ...]:
    """The functions `causes` of the modules in the folder, imported when they are first asked for."""
    from profscope.analysis import causes

    names = sorted(module.name for module in pkgutil.iter_modules(causes.__path__, f"{causes.__name__}."))
    return tuple(importlib.import_module(name).causes for name in names)


def _limited(said: Iterable[Finding], roof: Roof | None) -> Iterator[Finding]:
    """Findings whose gain is no more than what the roof leaves."""
    most = 100.0 if roof is None else roof.left_pct
    for each in said:
        gain = min(max(each.gain_pct, 0.0), most, 100.0)
        yield replace(each, gain_pct=gain)


def _clean(roof: Roof | None, emulated: bool) -> str:
    if roof is not None and roof.text:
        return f"no finding: {roof.text}"
    peak = "the emulator has no peaks" if emulated else "it was not compared with a peak"
    return f"no finding: nothing above {NOISE_PCT:.0f} % of the time; {peak}"


def _row(tables: Tables, kernel: str, variant: int, finding: Finding) -> dict[str, Any]:
    row = {name: getattr(finding, name) for name in FINDING_DTYPES if hasattr(finding, name)}
    lines = finding.line, *finding.also
    said = finding.evidence + stalled_on(tables, kernel, variant, finding.file, lines)
    said += OF_THE_EMULATOR if tables.emulated else ""
    return row | {"kernel": kernel, "variant": variant, "evidence": said, "program_pct": np.nan}


def _name(tables: Tables, kernel: str, variant: int) -> str:
    launches = tables.launches
    several = launches.loc[launches["kernel"] == kernel, "variant"].nunique() > 1
    return f"{kernel} #{variant}" if several else kernel
