"""masked-tiles: lanes of warps are switched off, by masks or by branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_METRIC: Final = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
_LANES: Final = 32


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """Part of the lanes does nothing: tiles reach beyond the data, or are masked off.

    Spans cannot tell. Nsight Compute counts the threads that execute an instruction and are not predicated
    off, on average; a warp has 32 (`add_ncu`, section WarpStateStats). Gain: the part of the lanes that is
    off, as if tiles fitted. Confidence: medium; a mask may stop one instruction in ten and cost nothing, and
    a lane may be off since its warp has no more to do.
    """
    entries = (judged.tables.metadata.get("ncu") or {}).get("kernels") or []
    mine = (each for each in entries if (each["kernel"], each["variant"]) == (judged.kernel, judged.variant))
    entry = next(mine, None)
    value, _ = (entry or {}).get("metrics", {}).get(_METRIC, (None, ""))
    if value is None:
        if entry is not None:
            yield NotMeasured(f"masked-tiles: the report of Nsight Compute has no {_METRIC}")
        return
    off_pct = 100.0 * (1 - min(float(value), _LANES) / _LANES)
    file, line = judged.place
    yield Finding(
        "masked-tiles",
        file,
        line,
        f"{float(value):.1f} of {_LANES} lanes execute an instruction, on average over the kernel (Nsight "
        f"Compute): {off_pct:.0f} % are masked off",
        "choose tiles that divide the data, skip tiles that are masked off as a whole, or handle the last "
        "tile apart",
        off_pct,
        "medium",
    )
