"""tail: the last CTAs of a grid leave most of the device empty."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.launch_shape import Shape
from profscope.analysis.quantities import count_text

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """CTAs are alike, but do not fill the last wave.

    Gain: the slots for CTAs that stand empty from the begin of the last CTA to the end of the launch, over
    all slots and the whole launch, and at most what the last wave lacks (`shape_of`): what a grid that
    fills its last wave would save, or one whose work can be cut into smaller pieces. Where all CTAs fit at
    once, the same of SMs that stand empty. Confidence: high up to four waves; medium beyond, where a tail is
    part of how unevenly CTAs end, and where nobody says how many CTAs an SM has room for.
    """
    shape, sm_count = judged.shape, judged.sm_count
    if shape is None:
        yield NotMeasured("tail, idle-sms, load-imbalance: only some of the CTAs were recorded")
        return
    if shape.sms < sm_count and shape.ctas < sm_count:
        return
    file, line = judged.place
    uneven = round(shape.imbalance_pct)
    beside = f", beside the {uneven} % of a launch that uneven CTAs cost" if uneven else ""
    empty = "the launch SMs stand" if shape.at_once else "the device's slots stand"
    yield Finding(
        "tail",
        file,
        line,
        f"{_waves(shape, sm_count)}; {shape.tail_pct:.0f} % of "
        f"{empty} empty behind the begin of the last CTA{beside}",
        "choose tiles or a grid that fill the last wave, split K (stream-K), or let as many programs as "
        "fit loop over the tiles",
        shape.tail_pct,
        "high" if shape.room and shape.waves <= 4 else "medium",
    )


def _waves(shape: Shape, sm_count: int) -> str:
    each = f"{shape.room or shape.per_sm} on each of {sm_count} SMs at once"
    if not shape.room:
        each += " were seen; what an SM has room for is not known"
    all_run = ", so all run at once" if shape.at_once else ""
    return f"{count_text(shape.ctas, 'CTA')}: {shape.waves:.2f} waves of {shape.slots:,} ({each}){all_run}"
