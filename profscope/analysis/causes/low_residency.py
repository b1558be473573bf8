"""low-residency: too few warps on an SM to hide its waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from instrument_passes.analyses.occupancy import SmLimits, limits_of
from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.quantities import count_text

__all__ = ["causes"]

_FEW: Final = 0.25  # of the warps that an SM can hold


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Registers or shared memory let few warps onto an SM, and these wait a lot.

    Gain: the waits that were recorded, over the time of all warps, times the part of an SM's places for
    warps that stand empty. Confidence: low; whether more warps fit is up to the kernel.
    Warp-specialised kernels are left out.
    """
    build = judged.build("bare") or judged.build("instrumented")
    warps = judged.configuration.get("num_warps")
    device = judged.tables.metadata.get("device")
    arch = str(device.get("arch", "")) if isinstance(device, dict) else ""
    limits = limits_of(arch.replace("sm_", "cuda:").rstrip("a"))
    if not build.get("ctas_per_sm") or not warps or not isinstance(limits, SmLimits):
        if not judged.emulated:
            yield NotMeasured("low-residency: nobody says what the binary takes")
        return
    if partitions_of(judged) > 1:
        return  # whose few warps are meant to be few
    resident = int(build["ctas_per_sm"]) * int(warps)
    part = resident / limits.warps
    waits = judged.of_class("wait") & ~judged.for_dots
    if part >= _FEW or not waits.any():
        return
    share = judged.share_pct(float(judged.spans.duration[waits].sum()))
    without = limits.fit(int(warps), int(build.get("registers") or 0), 0)
    by = "shared memory" if without > int(build["ctas_per_sm"]) else "registers"
    file, line = judged.place
    yield Finding(
        "low-residency",
        file,
        line,
        f"an SM has room for {count_text(build['ctas_per_sm'], 'CTA')} of {count_text(warps, 'warp')}, "
        f"{100 * part:.0f} % of its {limits.warps} warps, limited by {by} "
        f"({build.get('registers')} registers, {build.get('shared_bytes')} bytes); waits take "
        f"{share:.0f} % of warp time",
        f"use less of it ({by}): fewer stages, smaller tiles, maxnreg",
        share * (1 - part),
        "low",
    )
