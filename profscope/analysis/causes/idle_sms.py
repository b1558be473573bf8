"""idle-sms: fewer CTAs than SMs."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.quantities import count_text

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """The grid has fewer CTAs than the device has SMs.

    Gain: the part of the SMs that ran nothing, as if the work could be spread over all of them. Confidence:
    high for a part of at least a quarter, medium for less.
    """
    shape, sm_count = judged.shape, judged.sm_count
    if shape is None or shape.ctas >= sm_count or shape.sms >= sm_count:
        return
    idle_pct = 100.0 * (1 - shape.sms / sm_count)
    file, line = judged.place
    yield Finding(
        "idle-sms",
        file,
        line,
        f"{count_text(shape.ctas, 'CTA')} run{'s' * (shape.ctas == 1)} on {shape.sms} of {sm_count} SMs; "
        f"{idle_pct:.0f} % of the SMs have nothing to do",
        "make more programs: smaller tiles, a second axis of the grid, split the reduction (split-K)",
        idle_pct,
        "high" if idle_pct >= 25 else "medium",
    )
