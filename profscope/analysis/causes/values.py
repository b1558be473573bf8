"""nan, infinity: probes saw values that are no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.probed import ADVICE, first_seen

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """A probe saw a NaN, or an infinity.

    Gain: 0; such a kernel is wrong rather than slow, so the finding stands whatever else there is.
    Confidence: high.
    """
    nans, infinities = first_seen(judged, "nans"), first_seen(judged, "infs")
    if nans:
        yield Finding("nan", nans.file, nans.line, nans.text, ADVICE["nan"], 0.0, "high")
    if infinities:
        yield Finding(
            "infinity", infinities.file, infinities.line, infinities.text, ADVICE["infinity"], 0.0, "high"
        )
