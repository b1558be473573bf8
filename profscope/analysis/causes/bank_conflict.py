"""bank-conflict: shared memory serves the lanes of a warp one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_BYTES_PER_CYCLE: Final = 128  # 32 banks of 4 bytes each, of every SM
_LATENCY: Final = 33  # of a shared load without conflicts, its record included
_RATIO: Final = 4.0


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """Accesses to shared memory take several times as long as their bytes at 128 bytes a cycle.

    All CTAs of an SM share its banks, so an access may take as long as the bytes of all that run at once,
    and 33 cycles. Gain: what accesses take beyond that, where they take four times as much, over the time
    of all warps. Accesses behind a load are left out: they wait for its data. On the emulator addresses do
    not matter. Confidence: high for a ratio of eight, medium below.
    """
    spans, sites = judged.spans, judged.sites
    rows = judged.of_class("local")
    if judged.emulated or not rows.any() or judged.work.empty:
        return
    behind = np.zeros(len(spans), np.bool_)
    behind[1:] = judged.of_class("load")[:-1]
    together = (
        judged.shape.per_sm if judged.shape else int(judged.build("instrumented").get("ctas_per_sm") or 1)
    )
    worst, lost, floor_at, mean_at = -1, np.zeros(len(sites)), {}, {}
    for site in np.flatnonzero((sites["cls"] == "local").to_numpy()).tolist():
        here = (spans.site == site) & ~behind
        moved = judged.bytes_each(site)
        if not here.any() or not moved:
            continue
        took = spans.duration[here]
        floor = _LATENCY + moved * together / _BYTES_PER_CYCLE
        if took.mean() >= _RATIO * floor:
            lost[site] = float(np.maximum(took - floor, 0).sum())
            floor_at[site], mean_at[site] = floor, float(took.mean())
    worst = int(np.argmax(lost))
    if not lost[worst]:
        return
    file, line = judged.at(worst)
    ratio = mean_at[worst] / floor_at[worst]
    yield Finding(
        "bank-conflict",
        file,
        line,
        f"{sites['scope'].iloc[worst]} takes {mean_at[worst]:.0f} cycles where its bytes need "
        f"{floor_at[worst]:.0f}, {together} CTAs on the SM at once ({ratio:.1f} times as long)",
        "use a swizzled or padded shared layout, or one whose order is that of the accesses",
        judged.share_pct(float(lost.sum())),
        "high" if ratio >= 8 else "medium",
    )
