"""tail: the last CTAs of a grid leave most of the device empty."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged
from profscope.analysis.quantities import count_text

__all__ = ["causes"]


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """CTAs are alike, but do not fill the last wave.

    Gain: the slots for CTAs that stand empty from the begin of the last CTA to the end of the launch, over
    all slots and the whole launch, and at most what the last wave lacks (`shape_of`): what a grid that
    fills its last wave would save, or one whose work can be cut into smaller pieces. Confidence: high up to
    four waves; medium beyond, where a tail is part of how unevenly CTAs end.
    """
    shape = judged.shape
    if shape is None:
        yield NotMeasured("tail, idle-sms, load-imbalance: only some of the CTAs were recorded")
        return
    if shape.sms < judged.sm_count and shape.ctas < judged.sm_count:
        return
    file, line = judged.place
    yield Finding(
        "tail",
        file,
        line,
        f"{count_text(shape.ctas, 'CTA')}: {shape.waves:.2f} waves of {shape.slots:,} ({shape.per_sm} on "
        f"each of {judged.sm_count} SMs at once); {shape.tail_pct:.0f} % of the device's slots stand empty "
        "behind the begin of the last CTA",
        "choose tiles or a grid that fill the last wave, split K (stream-K), or let as many programs as "
        "fit loop over the tiles",
        shape.tail_pct,
        "high" if shape.waves <= 4 else "medium",
    )
