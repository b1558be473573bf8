"""atomics: warps wait for atomic operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_MOST: Final = 4000  # cycles behind an atomic that are counted as waiting for it, at most


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """Atomic operations whose old value is waited for, or that contend for an address.

    Gain: the spans of atomics and what follows them without a span, at most 4,000 cycles each, over the
    time of all warps: as if there were none. Confidence: high where the spans themselves hold most of that
    time, medium where what follows does.
    """
    rows = judged.of_class("atomic")
    if not rows.any():
        return
    spans, sites = judged.spans, judged.sites
    lost = np.where(rows, spans.own + np.minimum(spans.gap, _MOST), 0)
    by_site = judged.total(lost)
    site = int(np.argmax(by_site))
    cycles, count = float(lost.sum()), int(rows.sum())
    own = float(spans.own[rows].sum())
    slow = float(np.percentile(lost[rows], 95))
    file, line = judged.at(site)
    yield Finding(
        "atomics",
        file,
        line,
        f"{sites['scope'].iloc[site]}: {judged.share_pct(cycles):.0f} % of warp time goes into atomics, "
        f"{cycles / count:,.0f} cycles each, {slow:,.0f} for the slowest 5 %; "
        f"{count / len(judged.ctas):.1f} a CTA, counted by warp",
        "add up in registers or shared memory first and go to memory once a CTA; spread the addresses; do "
        "not use the old value",
        judged.share_pct(cycles),
        "high" if own >= cycles / 2 else "medium",
    )
