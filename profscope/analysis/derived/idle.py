"""The part of the time in which SMs have no CTA, by when each CTA of a launch ran."""

from __future__ import annotations

import pandas as pd

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
    took = int(ctas["end_ns"].max() - ctas["start_ns"].min())
    if took <= 0:
        return 0.0
    rows = ctas.sort_values(["sm", "start_ns"])
    same = rows["sm"].eq(rows["sm"].shift())
    ended = rows.groupby("sm")["end_ns"].cummax().shift().where(same, rows["start_ns"])
    begins = rows["start_ns"].where(rows["start_ns"] > ended, ended)
    busy = (rows["end_ns"] - begins).clip(lower=0).sum()
    return max(0.0, 1 - float(busy) / (sms * took))
