"""spills: registers go through local memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_BYTES_PER_CYCLE: Final = 128  # of an SM's L1 cache
_LANES: Final = 32


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """The kernel's own binary spills registers.

    Gain: a model: each spilled byte is written and read back once in each step of the loop that takes
    longest, at the 128 bytes a cycle of an SM's L1 cache, shared by the CTAs that run at once; that over
    the time of a step, at most 95 %. Confidence: medium where the bare binary's figures are known, low
    where only the instrumented one's are, since records need registers, too.
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
    step, steps = judged.warp_cycles / max(1, int((spans.parent < 0).sum())), 1
    if len(loops):
        loop = int(max(loops, key=lambda each: float(judged.total(spans.duration)[each])))
        file, line = judged.at(loop)
        inside = spans.iteration[spans.parent >= 0]
        rows = spans.site == loop
        steps = (
            int(inside[np.isin(spans.parent[spans.parent >= 0], np.flatnonzero(rows))].max(initial=-1)) + 1
        )
        step = float(spans.duration[rows].mean()) / max(1, steps)
    warps = int(np.bincount(spans.cta[spans.parent < 0]).max())
    together = int(build.get("ctas_per_sm") or 1)
    traffic = 2 * spilled * _LANES * warps * together / _BYTES_PER_CYCLE
    pct = min(95.0, 100.0 * traffic / max(1.0, step))
    limit = judged.configuration.get("maxnreg")
    yield Finding(
        "spills",
        file,
        line,
        f"the {build.get('build')} binary spills {spilled} bytes a thread at {build.get('registers')} "
        "registers"
        f"{f' (maxnreg={limit})' if limit else ''}; to write and read them once takes {traffic:,.0f} "
        "cycles, a step "
        f"of the loop {step:,.0f}",
        "raise maxnreg, use more warps or smaller tiles, or keep fewer values alive across the loop",
        pct,
        "medium" if build is bare and steps > 1 else "low",
    )
