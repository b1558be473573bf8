"""spills: registers go through local memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["causes"]

_BYTES_PER_CYCLE: Final = 128  # of an SM's L1 cache
_LANES: Final = 32
_REGISTER_BYTES: Final = 4
_MOST_PCT: Final = 95.0


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """The kernel's own binary spills registers.

    Gain: a model: each spilled register is written and read back once in each step of the loop that takes
    longest, at the 128 bytes a cycle of an SM's L1 cache, shared by the CTAs that run at once; that over
    the time of a step, at most 95 %. Where more registers are spilled than kept, values go through memory
    again and again, and it is 95 %, or what the kernel's roof leaves. Confidence: medium where the bare
    binary's figures are known, low where only the instrumented one's are, since records need registers, too.
    """
    bare, instrumented = judged.build("bare"), judged.build("instrumented")
    if not bare and instrumented.get("spills") is None:
        yield NotMeasured("spills: nobody says what the binary takes")
        return
    build = bare if bare.get("spills") is not None else instrumented
    spilled = int(build.get("spills") or 0)
    if not spilled:
        return
    spans, sites = judged.spans, judged.sites
    loops = np.flatnonzero((sites["kind"] == "loop").to_numpy())
    file, line = judged.place
    step, what = judged.warp_cycles / max(1, int((spans.parent < 0).sum())), "the kernel"
    if len(loops):
        loop = int(np.argmax(judged.total(spans.duration) * (sites["kind"] == "loop").to_numpy()))
        file, line = judged.at(loop)
        rows = np.flatnonzero(spans.site == loop)
        steps = int(spans.iteration[np.isin(spans.parent, rows)].max(initial=-1)) + 1
        if not steps:
            yield NotMeasured(
                f"spills: {spilled} registers are spilled, but how many steps {sites['scope'].iloc[loop]} "
                "has "
                "was not recorded (instrument='heavy' does)"
            )
            return
        step, what = float(spans.duration[rows].mean()) / steps, "a step of the loop"
    warps = int(np.bincount(spans.cta[spans.parent < 0]).max())
    together = judged.shape.per_sm if judged.shape else int(build.get("ctas_per_sm") or 1)
    traffic = 2 * spilled * _REGISTER_BYTES * _LANES * warps * together / _BYTES_PER_CYCLE
    most = spilled > int(build.get("registers") or 0)
    pct = _MOST_PCT if most else min(_MOST_PCT, 100.0 * traffic / max(1.0, step))
    limit = judged.configuration.get("maxnreg")
    yield Finding(
        "spills",
        file,
        line,
        f"the {build.get('build')} binary spills {spilled} registers of 4 bytes and keeps "
        f"{build.get('registers')}{f' (maxnreg={limit})' if limit else ''}; to write and read them once "
        f"takes the CTAs of an SM {traffic:,.0f} cycles, {what} {step:,.0f}",
        "raise maxnreg, use more warps or smaller tiles, or keep fewer values alive across the loop",
        pct,
        "medium" if build is bare else "low",
    )
