"""What is found in each configuration: findings, and how its warps, CTAs and launches run."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.timeline.critical_path import path_of
from profscope.analysis.timeline.overlap import overlap_of
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool

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
    own = TimelineAnswers(path_of(judged), overlap_of(judged), _tail_of(judged)) if key in timelines else None
    return findings_of(tables, judged) if with_findings else FindingsOf(Answer([], []), "", ""), (key, own)


def _tail_of(judged: KernelAnalysis | SkippedKernel) -> Answer:
    """How a configuration's launches end, as the finding `tail` has it."""
    if isinstance(judged, SkippedKernel):
        return judged.answer
    shape = judged.shape
    if shape is None:
        return Answer([], [f"{judged.kernel}: only some of the CTAs were recorded"])
    return Answer(
        [{"tail_pct": shape.tail_pct, "ctas": shape.ctas, "waves": shape.waves, "sms_used": shape.sms}], []
    )
