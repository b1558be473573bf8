"""saturation: probes saw the greatest number of a type, at which larger ones were cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.probed import ADVICE, first_seen, probed

__all__ = ["causes"]

_LARGEST_HALF: Final = 65504.0


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """A probe saw numbers of the greatest finite magnitude of the tensor's type, 448 in float8 (e4m3).

    Conversions to float8 end there, and so do results that the kernel itself limits. A wider tensor whose
    least or greatest value is that of float16, 65,504, was cut off for a conversion to it. Gain: 0, as for
    NaNs. Confidence: medium; it may be meant.
    """
    advice = ADVICE["saturation"]
    seen = first_seen(judged, "saturated")
    if seen:
        text = f"{seen.text}; a greater one has been cut off, or it is just this one"
        yield Finding("saturation", seen.file, seen.line, text, advice, 0.0, "medium")
        return
    extreme = np.fmax(np.abs(probed(judged, "min")), np.abs(probed(judged, "max")))
    full = np.flatnonzero(extreme == _LARGEST_HALF)
    if len(full):
        site = int(judged.spans.site[full[0]])
        yield Finding(
            "saturation",
            *judged.at(site),
            f"{judged.sites['scope'].iloc[site]} reaches {_LARGEST_HALF:.0f}, the largest float16, in "
            f"{len(full):,} spans",
            advice,
            0.0,
            "medium",
        )
