"""The part of the time in which SMs have no CTA, by when each CTA of a launch ran."""

from __future__ import annotations

import pandas as pd

from profscope.analysis.breakdown import sm_time

__all__ = ["idle_of"]


def idle_of(ctas: pd.DataFrame, grid: int, sms: int) -> float:
    """Of a launch's time on all SMs, 0 to 1; of several launches, the mean. 0 if it is not known of all CTAs
    of a launch when they ran, or how many SMs there are.

    ctas: rows of `prof.ctas`, of one configuration. grid: how many CTAs a launch has. sms: of the device, 0
    if unknown.
    """
    if not sms:
        return 0.0
    known = [_of_launch(own, sms) for _, own in ctas.groupby("launch") if len(own) == grid]
    return sum(known) / len(known) if known else 0.0


def _of_launch(ctas: pd.DataFrame, sms: int) -> float:
    time = sm_time(ctas, sms)
    return 1 - time.busy / time.whole if time.whole > 0 else 0.0
