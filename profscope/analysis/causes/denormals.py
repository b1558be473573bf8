"""denormals: probes saw numbers too small for all the digits of their type."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.probed import ADVICE, first_seen

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """A probe saw numbers that are denormal in the type of the tensor, as below 6.1e-5 in float16.

    What is smaller yet has become zero, and nobody counts that. Gain: 0: a GPU is as fast with them; it is
    the result that loses digits. Confidence: medium; small numbers may not matter to a sum with large ones.
    """
    seen = first_seen(judged, "denormals")
    if seen:
        yield Finding(
            "denormals",
            seen.file,
            seen.line,
            f"{seen.text}; below the least normal number of their type digits are lost, and then all of them",
            ADVICE["denormals"],
            0.0,
            "medium",
        )
