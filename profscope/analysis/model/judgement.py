"""Each configuration's findings, and how its warps, CTAs and launches run."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of, of_each_kernel
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.timeline.critical_path import path_of
from profscope.analysis.timeline.overlap import overlap_of
from profscope.schema import Tables

__all__ = ["Judgement", "TimelineAnswers", "judgement_of"]


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
    told = of_each_kernel(tables, partial(_answers, tables, timelines, with_findings), known)
    frame = findings_frame(tables, [findings for findings, _ in told])
    return Judgement(frame, {key: own for _, (key, own) in told if own is not None})


def _answers(
    tables: Tables,
    timelines: Collection[tuple[str, int]],
    with_findings: bool,
    analysis: KernelAnalysis | SkippedKernel,
) -> tuple[FindingsOf, tuple[tuple[str, int], TimelineAnswers | None]]:
    key = analysis.kernel, analysis.variant
    own = (
        TimelineAnswers(path_of(analysis), overlap_of(analysis), _tail_of(analysis))
        if key in timelines
        else None
    )
    return findings_of(tables, analysis) if with_findings else FindingsOf(Answer([], []), "", ""), (key, own)


def _tail_of(analysis: KernelAnalysis | SkippedKernel) -> Answer:
    """How a configuration's launches end, as the finding `tail` has it."""
    if isinstance(analysis, SkippedKernel):
        return analysis.answer
    shape = analysis.shape
    if shape is None:
        return Answer([], [f"{analysis.kernel}: only some of the CTAs were recorded"])
    return Answer(
        [{"tail_pct": shape.tail_pct, "ctas": shape.ctas, "waves": shape.waves, "sms_used": shape.sms}], []
    )
