"""Values that make a kernel wrong rather than slow: nan, infinity, denormals and saturation, as probes saw
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Confidence, Finding
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.probed import ADVICE, first_seen, probed

__all__ = ["wrong_values"]

_LARGEST_HALF: Final = 65504.0
_COUNTED: Final[tuple[tuple[str, str, str, Confidence], ...]] = (
    ("nan", "nans", "", "high"),
    ("infinity", "infs", "", "high"),
    (
        "denormals",
        "denormals",
        "; below the least normal number of their type digits are lost, and then all of them",
        "medium",
    ),
    ("saturation", "saturated", "; a greater one has been cut off, or it is just this one", "medium"),
)
"""Finding, the probe's column, what it means, and the confidence."""


def wrong_values(judged: KernelAnalysis) -> Iterator[Finding]:
    """Each without a gain. Conversions to float8 saturate at its greatest number; a wider tensor whose least
    or greatest value is that of float16, 65,504, was cut off for a conversion to it."""
    for name, column, meaning, confidence in _COUNTED:
        seen = first_seen(judged, column)
        if seen:
            yield Finding(name, seen.file, seen.line, seen.text + meaning, ADVICE[name], 0.0, confidence)
        elif name == "saturation":
            yield from _at_the_largest_half(judged)


def _at_the_largest_half(judged: KernelAnalysis) -> Iterator[Finding]:
    extreme = np.fmax(np.abs(probed(judged, "min")), np.abs(probed(judged, "max")))
    full = np.flatnonzero(extreme == _LARGEST_HALF)
    if len(full):
        site = int(judged.spans.site[full[0]])
        text = (
            f"{judged.sites['scope'].iloc[site]} reaches {_LARGEST_HALF:.0f}, the largest float16, in "
            f"{len(full):,} spans"
        )
        yield Finding("saturation", *judged.at(site), text, ADVICE["saturation"], 0.0, "medium")
