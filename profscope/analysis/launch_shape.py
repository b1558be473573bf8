"""How a launch filled the device: slots for CTAs, waves, and what was idle, from when its CTAs ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profscope.schema import Tables

__all__ = ["ALIKE", "UNLIKE", "Shape", "shape_of", "told_sms"]

ALIKE = 0.05
"""CTAs are alike if the standard deviation of their cycles is less than this part of the mean."""

UNLIKE = 0.35
"""CTAs that do the same still differ, by where their data is and what runs beside them; beyond this standard
deviation over the mean they do not do the same (an H200's like CTAs: up to 0.3)."""


@dataclass(frozen=True)
class Shape:
    """Medians over launches.

    ctas: of a launch; sms: how many of them ran one; per_sm: CTAs that an SM ran at once, at most; slots:
    per_sm times the SMs of the device; waves: ctas over slots. mean_ns, longest_ns, mean_cycles,
    longest_cycles: of a CTA; variation: the standard deviation of their cycles over the mean. imbalance_pct
    and tail_pct: see `shape_of`.
    """

    ctas: int
    sms: int
    per_sm: int
    slots: int
    waves: float
    mean_ns: float
    longest_ns: float
    mean_cycles: float
    longest_cycles: float
    variation: float
    imbalance_pct: float
    tail_pct: float


def told_sms(tables: Tables) -> int | None:
    """How many SMs the device has; None where nobody says."""
    device = tables.metadata.get("device")
    told = device.get("sm_count") if isinstance(device, dict) else None
    return told if isinstance(told, int) and told > 0 else None


def shape_of(ctas: pd.DataFrame, sm_count: int) -> Shape:
    """The shape of launches all of whose CTAs were recorded.

    A launch takes T, from its first CTA's begin to its last one's end. If all CTAs took the mean,
    ceil(waves) of them in turn would take E. imbalance_pct is what T exceeds E by, in percent of T; 0 where
    the CTAs are `ALIKE`. From the begin of the last CTA on no CTA waits for a slot: the time from there to
    the end in which slots are empty, over slots times T, less imbalance_pct, is tail_pct; at most what the
    last wave lacks, 1 - waves / ceil(waves).
    """
    per_sm = _most_at_once(ctas)
    slots = per_sm * max(sm_count, ctas["sm"].nunique())
    figures = []
    for _, each in ctas.groupby("launch", sort=False):
        start, end = each["start_ns"].to_numpy(), each["end_ns"].to_numpy()
        whole = max(1, int(end.max() - start.min()))
        length = end - start
        mean = float(length.mean())
        even = np.ceil(len(each) / slots) * mean
        cycles = each["cycles"].to_numpy()
        variation = float(cycles.std() / max(1.0, cycles.mean()))
        imbalance = max(0.0, 1 - even / whole) if variation >= ALIKE else 0.0
        last = int(start.max())
        busy = np.maximum(end - np.maximum(start, last), 0).sum()
        tail = max(0.0, (slots * (int(end.max()) - last) - busy) / (slots * whole) - imbalance)
        waves = len(each) / slots
        tail = min(tail, 1 - waves / np.ceil(waves))
        took = mean, length.max(), cycles.mean(), cycles.max()
        figures.append((len(each), each["sm"].nunique(), *took, variation, imbalance, tail))
    count, sms, *times, variation, imbalance, tail = np.median(np.array(figures, np.float64), axis=0)
    return Shape(
        ctas=int(count),
        sms=int(sms),
        per_sm=per_sm,
        slots=slots,
        waves=float(count) / slots,
        mean_ns=float(times[0]),
        longest_ns=float(times[1]),
        mean_cycles=float(times[2]),
        longest_cycles=float(times[3]),
        variation=float(variation),
        imbalance_pct=100 * float(imbalance),
        tail_pct=100 * float(tail),
    )


def _most_at_once(ctas: pd.DataFrame) -> int:
    """The most CTAs of a launch that an SM ran at once."""
    launch, _ = pd.factorize(ctas["launch"])
    sm = launch.astype(np.int64) * (1 << 20) + ctas["sm"].to_numpy()
    # A CTA's last records may be a little late, so that it seems to overlap the next one.
    start, cycles = ctas["start_cycle"].to_numpy(), ctas["cycles"].to_numpy()
    end = start + cycles - cycles // 50
    change = np.repeat([1, -1], len(ctas))
    order = np.lexsort((change, np.concatenate([start, end]), np.tile(sm, 2)))
    return int(np.cumsum(change[order]).max(initial=1))
