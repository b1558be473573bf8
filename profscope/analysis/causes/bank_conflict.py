"""bank-conflict: shared memory serves the lanes of a warp one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.quantities import count_text

__all__ = ["causes"]

_BYTES_PER_CYCLE: Final = 128  # 32 banks of 4 bytes each, of every SM
_LATENCY: Final = 33  # of a shared load without conflicts, its record included
_RATIO: Final = 4.0
_STEADY: Final = 2.0  # times as long, that three of four accesses take: one that waits for others varies


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Accesses to shared memory take several times as long as their bytes at 128 bytes a cycle.

    All CTAs of an SM share its banks, so an access may take as long as the bytes of all that run at once, and
    33 cycles. Where one takes four times as much on average, and three of four accesses twice as much, the
    others wait for the banks, too. Gain: what all accesses to shared memory take beyond the time of their
    bytes, and the same part of what the loops around them take without a span (barriers that Triton adds,
    waits for the data), over the time of all warps. Accesses behind a load are left out: they wait for its
    data. On the emulator addresses do not matter. Confidence: high for a ratio of eight, medium below.
    """
    spans, sites = judged.spans, judged.sites
    rows = judged.of_class("local")
    if judged.emulated or not rows.any() or judged.work.empty:
        return
    behind = _behind_loads(judged, rows)
    together = (
        judged.shape.per_sm if judged.shape else int(judged.build("instrumented").get("ctas_per_sm") or 1)
    )
    lost, ratios = np.zeros(len(sites)), np.zeros(len(sites))
    for site in np.flatnonzero((sites["cls"] == "local").to_numpy()).tolist():
        here = (spans.site == site) & ~behind
        moved = judged.bytes_each(site)
        if not here.any() or not moved:
            continue
        floor = _LATENCY + moved * together / _BYTES_PER_CYCLE
        lost[site] = float(np.maximum(spans.duration[here] - floor, 0).sum())
        took = spans.duration[here]
        steady = np.percentile(took, 25) >= _STEADY * floor
        ratios[site] = float(took.mean()) / floor if steady else 0.0
    worst = int(np.argmax(lost * (ratios >= _RATIO)))
    ratio = float(ratios[worst])
    if ratio < _RATIO:
        return
    mean = float(spans.duration[(spans.site == worst) & ~behind].mean())
    file, line = judged.at(worst)
    in_loops = judged.of_kind("op") & (spans.iteration >= 0)
    part = float(lost.sum()) / max(1.0, float(spans.own[in_loops].sum()))
    around = float(spans.own[judged.of_kind("loop", "iteration")].sum()) * min(1.0, part)
    yield Finding(
        "bank-conflict",
        file,
        line,
        f"{sites['scope'].iloc[worst]} takes {mean:,.0f} cycles where its bytes need {mean / ratio:,.0f}, "
        f"{count_text(together, 'CTA')} on the SM at once ({ratio:.1f} times as long)",
        "use a swizzled or padded shared layout, or one whose order is that of the accesses",
        judged.share_pct(float(lost.sum()) + around),
        "high" if ratio >= 8 else "medium",
    )


def _behind_loads(judged: KernelAnalysis, local: np.ndarray) -> np.ndarray:
    """By span: whether it is an access to shared memory with nothing but such between it and a load."""
    number = np.arange(len(local))
    other = np.maximum.accumulate(np.where(local, 0, number))
    return np.asarray(local & judged.of_class("load")[other], np.bool_)
