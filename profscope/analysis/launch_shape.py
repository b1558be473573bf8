"""How a launch filled the device: slots for CTAs, waves, and what was idle, from when its CTAs ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

__all__ = ["ALIKE", "SHAPE_FIGURES", "UNLIKE", "Shape", "shape_kept", "shape_of"]

ALIKE = 0.05
"""CTAs are alike if the standard deviation of their cycles is less than this part of the mean."""

UNLIKE = 0.35
"""CTAs that do the same still differ, by where their data is and what runs beside them; beyond this standard
deviation over the mean they do not do the same (an H200's like CTAs: up to 0.3)."""

SHAPE_FIGURES: Final = (
    "launches", "ctas", "sms", "per_sm", "mean_cycles", "longest_cycles", "deviation_cycles", "mean_ns",
    "longest_ns", "whole_ns", "last_ns", "busy_ns", "step_ns",
)  # fmt: skip
"""What is known of a configuration's launches that kept sums; see `decoding.cta_shapes`."""


@dataclass(frozen=True)
class Shape:
    """Medians over launches.

    ctas: of a launch; sms: how many of them ran one; per_sm: CTAs that an SM ran at once, at most; slots:
    per_sm times the SMs of the device; waves: ctas over slots. mean_ns, longest_ns, mean_cycles,
    longest_cycles: of a CTA; variation: the standard deviation of their cycles over the mean. imbalance_pct
    and tail_pct: see `shape_of`; error_pct: how far steps of the GPU's timer may put these off. told_by: what
    kept the figures where that is no spans, in words for a sentence.
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
    error_pct: float = 0.0
    told_by: str = ""


def shape_of(ctas: pd.DataFrame, sm_count: int) -> Shape:
    """The shape of launches all of whose CTAs were recorded.

    A launch takes T, from its first CTA's begin to its last one's end. If all CTAs took the mean,
    ceil(waves) of them in turn would take E. imbalance_pct is what T exceeds E by, in percent of T; 0 where
    the CTAs are `ALIKE`. From the begin of the last CTA on no CTA waits for a slot: the time from there to
    the end in which slots are empty, over slots times T, less imbalance_pct, is tail_pct; at most what the
    last wave lacks, 1 - waves / ceil(waves).

    Where the grids of launches differ, the shape is that of launches with one number of CTAs: together they
    took longest. A median over all of them would be that of no launch at all.
    """
    per_sm = _most_at_once(ctas)
    slots = per_sm * max(sm_count, ctas["sm"].nunique())
    figures = []
    for _, each in _of_one_grid(ctas).groupby("launch", sort=False):
        start, end = each["start_ns"].to_numpy(), each["end_ns"].to_numpy()
        length, last = end - start, int(start.max())
        cycles = each["cycles"].to_numpy()
        lost = _lost(
            len(each) / slots,
            variation := float(cycles.std() / max(1.0, cycles.mean())),
            float(length.mean()),
            max(1, int(end.max() - start.min())),
            slots * (int(end.max()) - last) - int(np.maximum(end - np.maximum(start, last), 0).sum()),
            slots,
        )
        took = length.mean(), length.max(), cycles.mean(), cycles.max()
        figures.append((len(each), each["sm"].nunique(), *took, variation, *lost))
    count, sms, *rest = np.median(np.array(figures, np.float64), axis=0).tolist()
    return Shape(int(count), int(sms), per_sm, slots, count / slots, *rest)


def shape_kept(metadata: dict[str, Any], kernel: str, variant: int, sm_count: int) -> Shape | None:
    """The same of launches that kept sums, from what folding noted of some of them (`decoding.cta_shapes`).
    None where it noted nothing: not all of their CTAs recorded, or the profile is an older one."""
    about = (metadata.get("kernels") or {}).get(kernel) or {}
    known = next((each for each in about.get("shapes") or () if each["variant"] == variant), None)
    if known is None:
        return None
    launches, count, per_sm, whole = (
        max(1, known[name]) for name in ("launches", "ctas", "per_sm", "whole_ns")
    )
    slots = int(per_sm) * max(1, sm_count, int(known["sms"]))
    variation = known["deviation_cycles"] / max(1.0, known["mean_cycles"])
    empty = slots * known["last_ns"] - known["busy_ns"]
    imbalance_pct, tail_pct = _lost(count / slots, variation, known["mean_ns"], whole, empty, slots)
    return Shape(
        int(count), int(known["sms"]), int(per_sm), slots, count / slots,
        known["mean_ns"], known["longest_ns"], known["mean_cycles"], known["longest_cycles"],
        variation, imbalance_pct, tail_pct,
        # The launch and what comes behind the begin of its last CTA may be off by a step each.
        error_pct=min(100.0, 200 * known["step_ns"] / whole),
        told_by=f" (median of {launches:,} launch{'es' * (launches != 1)} that kept sums)",
    )  # fmt: skip


def _lost(
    waves: float, variation: float, mean_ns: float, whole_ns: float, empty_ns: float, slots: int
) -> tuple[float, float]:
    """imbalance_pct and tail_pct of a launch. empty_ns: of all slots, behind the begin of the last CTA."""
    imbalance = max(0.0, 1 - np.ceil(waves) * mean_ns / whole_ns) if variation >= ALIKE else 0.0
    tail = max(0.0, empty_ns / (slots * whole_ns) - imbalance)
    return 100 * float(imbalance), 100 * float(min(tail, 1 - waves / np.ceil(waves)))


def _of_one_grid(ctas: pd.DataFrame) -> pd.DataFrame:
    """The CTAs of those launches that have one number of them, and together took longest."""
    if ctas["launch"].value_counts().nunique() < 2:
        return ctas
    launches = ctas.groupby("launch", sort=False).agg(
        count=("sm", "size"), start=("start_ns", "min"), end=("end_ns", "max")
    )
    took = (launches["end"] - launches["start"]).groupby(launches["count"]).sum()
    alike = launches.index[launches["count"] == took.iloc[::-1].idxmax()]  # of several the most CTAs
    return ctas[ctas["launch"].isin(alike)]


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
