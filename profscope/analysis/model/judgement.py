"""What is found in each configuration: findings, and how its warps, CTAs and launches run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.model.entries import EvidenceValue, FindingEntry, PathStep, Tail
from profscope.analysis.model.numbers import known_number
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.timeline.critical_path import path_of
from profscope.analysis.timeline.overlap import overlap_of
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool

__all__ = [
    "Judgement",
    "TimelineAnswers",
    "finding_entry",
    "judgement_of",
    "overlap_entry",
    "path_entries",
    "tail_entry",
]


class TimelineAnswers(NamedTuple):
    """How the warps, CTAs and launches of one configuration run."""

    critical_path: Answer
    overlap: Answer
    tail: Answer


class Judgement(NamedTuple):
    """findings: of all configurations, as `findings` returns them. timelines: of those that were asked for,
    by kernel and variant."""

    findings: pd.DataFrame
    timelines: dict[tuple[str, int], TimelineAnswers]


def judgement_of(
    tables: Tables,
    timelines: Collection[tuple[str, int]],
    known: SummedSpans | None = None,
    *,
    with_findings: bool = True,
) -> Judgement:
    """All asked in one walk, since what a configuration is judged by takes longest to make. timelines: the
    kernels and variants whose critical path, overlap and tail are wanted."""
    analyses = kernel_analyses(tables, known=known)
    with worker_pool() as pool:  # a configuration is judged while the next one's spans are taken
        told = list(in_order(pool, partial(_judged, tables, timelines, with_findings), analyses))
    frame = findings_frame(tables, [findings for findings, _ in told])
    return Judgement(frame, {key: own for _, (key, own) in told if own is not None})


def _judged(
    tables: Tables,
    timelines: Collection[tuple[str, int]],
    with_findings: bool,
    judged: KernelAnalysis | SkippedKernel,
) -> tuple[FindingsOf, tuple[tuple[str, int], TimelineAnswers | None]]:
    key = judged.kernel, judged.variant
    own = TimelineAnswers(path_of(judged), overlap_of(judged), tail_of(judged)) if key in timelines else None
    return findings_of(tables, judged) if with_findings else FindingsOf(Answer([], []), "", ""), (key, own)


def tail_of(judged: KernelAnalysis | SkippedKernel) -> Answer:
    """How a configuration's launches end, as the finding `tail` has it."""
    if isinstance(judged, SkippedKernel):
        return judged.answer
    shape = judged.shape
    if shape is None:
        return Answer([], [f"{judged.kernel}: only some of the CTAs were recorded"])
    return Answer(
        [{"tail_pct": shape.tail_pct, "ctas": shape.ctas, "waves": shape.waves, "sms": shape.sms}], []
    )


def finding_entry(kernel_id: str, row: Mapping[Any, Any]) -> FindingEntry:
    """row: of `findings`."""
    return FindingEntry(
        id=f"{kernel_id}-{row['finding']}-{row['line']}",
        finding=str(row["finding"]),
        file=str(row["file"]),
        line=int(row["line"]),
        evidence=str(row["evidence"]),
        evidence_values={
            str(name): EvidenceValue(known_number(each["value"]), str(each["unit"]))
            for name, each in row["evidence_values"].items()
        },
        advice=str(row["advice"]),
        gain_pct=known_number(row["gain_pct"]),
        gain_low_pct=known_number(row["gain_low_pct"]),
        gain_high_pct=known_number(row["gain_high_pct"]),
        program_pct=known_number(row["program_pct"]),
        confidence=str(row["confidence"]),
    )


def path_entries(path: Answer) -> tuple[PathStep, ...]:
    """The heaviest scopes on the way through a CTA."""
    return tuple(
        PathStep(
            scope=str(row["scope"]),
            file=str(row["file"]),
            line=int(row["line"]),
            cycles=int(row["cycles"]),
            share=known_number(row["share"]),
            earlier_pct=known_number(row["earlier_pct"]),
        )
        for row in path.rows
    )


def overlap_entry(overlap: Answer) -> dict[str, dict[str, float | None]] | None:
    """What runs at once in a CTA ("cta") and on an SM ("sm")."""
    entries = {
        str(row["of"]): {
            name: known_number(value)
            for name, value in row.items()
            if name not in ("kernel", "variant", "of")
        }
        for row in overlap.rows
    }
    return entries or None


def tail_entry(tail: Answer) -> Tail | None:
    if not tail.rows:
        return None
    (row,) = tail.rows
    return Tail(float(row["tail_pct"]), int(row["ctas"]), float(row["waves"]), int(row["sms"]))
