"""below-roof: what a kernel moves and computes explains little of its time, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.roof import GLOBAL, bytes_unknown
from profscope.analysis.roof_rows import rows_of

__all__ = ["causes"]

_LOW_PCT: Final = 33.0
_MOST_PCT: Final = 50.0
_LONG_NS: Final = 5_000  # at the peak; a kernel with less to do is bound by latencies, not by a roof


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """A kernel reaches less than a third of the roof of its device, and no other cause is found.

    The rows are those of `prof.plot.roofline()`; the finding stands at the loop that takes most time, if
    that takes half of the kernel's, or else at the kernel. Its work must take 5 us at the peak, and warps
    must spend half of their time in ops that move data, in dots and in waits: other arithmetic has no roof
    here.
    Gain: what its time exceeds that at the roof by, over the launch. Confidence: low.
    """
    if not judged.whole or judged.peak is None or judged.work.empty or bytes_unknown(judged):
        return
    roofed = judged.of_class(*GLOBAL, "mma", "wait")
    if not judged.launch_ns or judged.share_pct(float(judged.spans.own[roofed].sum())) < _MOST_PCT:
        return
    kernel, *rows = rows_of(judged)
    if not 0 < kernel["peak_pct"] < _LOW_PCT or kernel["ns"] * kernel["peak_pct"] / 100 < _LONG_NS:
        return
    loops = (each for each in rows if each["of"] == "loop" and each["ns"] >= kernel["ns"] / 2)
    row = next((each for each in loops if 0 < each["peak_pct"] < _LOW_PCT), kernel)
    at_roof = row["ns"] * row["peak_pct"] / 100
    rates = f"{row['gb_per_s']:,.0f} GB/s and {row['tflop_per_s']:,.1f} TFLOP/s"
    yield Finding(
        "below-roof",
        row["file"],
        row["line"],
        f"{row['scope']} takes {row['ns'] / 1e3:,.1f} us of the launch and reaches {rates} there, "
        f"{row['peak_pct']:.0f} % of the roof ({row['bound']}; {row['peak']})",
        "prof.limits() of a session with hardware=True says what it uses instead: arithmetic, shared memory, "
        "latency",
        100 * (row["ns"] - at_roof) / kernel["ns"],
        "low",
    )
