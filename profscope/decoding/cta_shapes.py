"""How CTAs filled the device in launches that kept sums: what the clocks in the headers of all CTAs tell.

Of a stack of launches the newest few, and of a program the newest `KEPT`: so it costs next to nothing, in
time as in memory, however many launches there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.raw import Mark
from profscope.decoding.stacks import Stack

__all__ = ["KEPT", "CtaShape", "about_shapes", "shapes_of"]

KEPT: Final = 16
_OF_A_STACK: Final = 2
_SM_SHIFT: Final = 47  # cycles of a launch that did not wrap have 32 bits
_SLACK: Final = 50
"""A CTA's last records may be late, by one part in so many, and seem to overlap those of the next one."""

_COLD: Final = Mark._fields.index("cold")


class CtaShape(NamedTuple):
    """Of a launch all of whose CTAs recorded. sms: how many ran one; per_sm: the most that one of them ran at
    once. mean, longest and (standard) deviation: of what a CTA took. whole_ns: of the launch; last_ns: from
    the begin of its last CTA to its end; busy_ns: what CTAs took in that time, added up; sms_busy_ns: how
    long SMs ran any of them in it, likewise; fullest_ns: the mean of the CTAs on SMs that ran most. Times in
    ns may be off by a step of the GPU's timer."""

    launch: int
    cold: bool
    ctas: int
    sms: int
    per_sm: int
    mean_cycles: float
    longest_cycles: int
    deviation_cycles: float
    mean_ns: float
    longest_ns: int
    whole_ns: int
    last_ns: int
    busy_ns: int
    sms_busy_ns: int
    fullest_ns: float


def shapes_of(stack: Stack) -> list[CtaShape]:
    """Of the newest launches of a stack; of none where some of their CTAs, or warps, were not to record."""
    selection, them = stack.manifest.selection, stack.launches
    if selection.warps or not selection.is_sample or stack.sm.shape[1] != them.ctas:
        return []
    newest = np.argsort(them.indices, kind="stable")[-_OF_A_STACK:].tolist()
    sound = stack.ended & ~stack.wrapped
    return [_shape(stack, at) for at in newest if sound[at].all()]


def _shape(stack: Stack, at: int) -> CtaShape:
    clock, end_clock, start, end = (times[at] for times in stack.times)
    cycles, sm = end_clock - clock, stack.sm[at].astype(np.int64)
    took, last = end - start, start.max()
    on_sm = np.bincount(sm)
    until = np.full(len(on_sm), last)
    np.maximum.at(until, sm, end)
    return CtaShape(
        launch=int(stack.launches.indices[at]),
        cold=bool(stack.launches.marks[at][_COLD]),
        ctas=len(sm),
        sms=int(np.count_nonzero(on_sm)),
        per_sm=_most_at_once(sm, clock, cycles),
        mean_cycles=float(cycles.mean()),
        longest_cycles=int(cycles.max()),
        deviation_cycles=float(cycles.std()),
        mean_ns=float(took.mean()),
        longest_ns=int(took.max()),
        whole_ns=max(1, int(end.max() - start.min())),
        last_ns=int(end.max() - last),
        busy_ns=int(np.maximum(end - np.maximum(start, last), 0).sum()),
        sms_busy_ns=int((until - last).sum()),
        fullest_ns=float(took[on_sm[sm] == on_sm.max()].mean()),
    )


def _most_at_once(sm: npt.NDArray[np.int64], clock: npt.NDArray[Any], cycles: npt.NDArray[Any]) -> int:
    """The most CTAs that an SM ran at once. Begins and ends are sorted as numbers: by SM, then by clock, then
    ends first."""
    first = np.full(int(sm.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, sm, clock)
    begin = clock - first[sm]  # an SM's clock counts from its own zero
    key = (sm << _SM_SHIFT) + (begin << 1)
    events = np.concatenate([key + 1, key + ((cycles - cycles // _SLACK) << 1)])
    events.sort()
    return int(np.cumsum(((events & 1) << 1) - 1).max(initial=1))


def about_shapes(shapes: Iterable[CtaShape], step_ns: int) -> dict[str, Any] | None:
    """Medians over the newest launches, the cold ones left out where there are others; of `per_sm` the most.
    Where their grids differ, medians are of those with one number of CTAs: together they took longest.
    JSON-able; None for no launches. `profscope.analysis.launch_shape` works with them. step_ns: of the
    timer."""
    every = sorted(shapes)
    newest = ([shape for shape in every if not shape.cold] or every)[-KEPT:]
    if not newest:
        return None
    took: Counter[int] = Counter()
    for shape in newest:
        took[shape.ctas] += shape.whole_ns
    most = max(took, key=lambda ctas: (took[ctas], ctas))
    alike = [shape for shape in newest if shape.ctas == most]
    columns = np.array([shape[2:] for shape in alike], np.float64)
    medians = dict(zip(CtaShape._fields[2:], np.median(columns, axis=0).tolist(), strict=True))
    return {"launches": len(alike), **medians, "per_sm": max(s.per_sm for s in newest), "step_ns": step_ns}
