"""What a cause says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["NOISE_PCT", "Confidence", "Finding"]

Confidence = Literal["high", "medium", "low"]
"""high: the time was measured as what the finding says it is. medium: it was measured, and a rule says what
it was spent on. low: the gain rests on a model of the hardware, or on few instances, or hardware samples
speak against it."""

NOISE_PCT = 5.0
"""A gain below this is no finding. Where a compiler puts code moves a kernel by up to 3 % on an H100 and H200
(docs/benchmarks.md); the rest is for launches, which vary, too."""


@dataclass(frozen=True)
class Finding:
    """One row of `findings()`, less kernel and variant: see there."""

    finding: str
    file: str
    line: int
    evidence: str
    advice: str
    gain_pct: float
    confidence: Confidence
