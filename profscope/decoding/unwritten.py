"""Launches into whose memory nothing was written."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from instrument_passes.manifest import Manifest
from instrument_passes.records import LAUNCH_HEADER
from profscope.decoding.alike import Alike

__all__ = ["those_that_wrote", "wrote_nothing"]


def wrote_nothing(index: int, manifest: Manifest) -> str:
    """A note on such a launch."""
    by_sm = manifest.selection.ctas == "sms"
    why = "no CTA ran on the SMs of sms=" if by_sm else "it did not run"
    return f"launch {index} ({manifest.kernel}) wrote nothing: {why}"


def those_that_wrote(launches: Iterable[Alike]) -> tuple[list[Alike], list[str]]:
    """The others of these launches, and a note on each that is left out."""
    kept, notes = [], []
    for group in launches:
        wrote = np.any(group.beginnings(LAUNCH_HEADER.itemsize).view(np.uint64), axis=1)
        notes += [wrote_nothing(index, group.manifest) for index in group.indices[~wrote].tolist()]
        if wrote.any():
            kept.append(group.where(wrote))
    return kept, notes
