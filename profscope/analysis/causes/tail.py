"""tail: the last CTAs of a grid leave most of the device empty."""

from __future__ import annotations

from collections.abc import Iterator

from profscope.analysis.cause import NOISE_PCT, Finding, NotMeasured
from profscope.analysis.judged import Judged
from profscope.analysis.launch_shape import Shape
from profscope.analysis.quantities import count_text

__all__ = ["causes", "tail"]


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """CTAs are alike, but do not fill the last wave.

    Gain: the slots for CTAs that stand empty from the begin of the last CTA to the end of the launch, over
    all slots and the whole launch, and at most what the last wave lacks (`shape_of`): what a grid that
    fills its last wave would save, or one whose work can be cut into smaller pieces. Where all CTAs fit at
    once, the same of SMs that stand empty. Confidence: high up to four waves; medium beyond, where a tail is
    part of how unevenly CTAs end, and where nobody says how many CTAs an SM has room for.
    """
    if judged.shape is None:
        yield NotMeasured("tail, idle-sms, load-imbalance: only some of the CTAs were recorded")
        return
    yield from tail(judged.shape, judged.sm_count, judged.place)


def tail(shape: Shape, sm_count: int, place: tuple[str, int]) -> Iterator[Finding | NotMeasured]:
    """place: file and line of the kernel."""
    if shape.sms < sm_count and shape.ctas < sm_count:
        return
    if shape.error_pct and shape.tail_pct - shape.error_pct < NOISE_PCT:
        if min(shape.tail_pct + shape.error_pct, shape.lacks_pct) >= NOISE_PCT:
            yield NotMeasured(
                f"tail: a step of the GPU's timer is {shape.error_pct / 2:.0f} % of a launch{shape.told_by}"
            )
        return
    file, line = place
    uneven = round(shape.imbalance_pct)
    beside = f", beside the {uneven} % of a launch that uneven CTAs cost" if uneven else ""
    known = f" +- {shape.error_pct:.0f}" if shape.error_pct >= 1 else ""
    empty = "the launch SMs stand" if shape.at_once else "the device's slots stand"
    yield Finding(
        "tail",
        file,
        line,
        f"{_waves(shape, sm_count)}; {shape.tail_pct:.0f}{known} % of "
        f"{empty} empty behind the begin of the last CTA{beside}{shape.told_by}",
        "choose tiles or a grid that fill the last wave, split K (stream-K), or let as many programs as "
        "fit loop over the tiles",
        shape.tail_pct,
        "high" if shape.room and shape.waves <= 4 and not shape.told_by else "medium",
    )


def _waves(shape: Shape, sm_count: int) -> str:
    each = f"{shape.room or shape.per_sm} on each of {sm_count} SMs at once"
    if not shape.room:
        each += " were seen; what an SM has room for is not known"
    all_run = ", so all run at once" if shape.at_once else ""
    return f"{count_text(shape.ctas, 'CTA')}: {shape.waves:.2f} waves of {shape.slots:,} ({each}){all_run}"
