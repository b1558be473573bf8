"""many-stages: a pipelined loop has more stages than its copies need, and they keep CTAs off the SM."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.devices import copy_latency_cycles
from profscope.analysis.kernel_analysis import DURATION, KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.stage_occupancy import room_for_stages

__all__ = ["causes"]

_PASSED: Final = 30  # cycles of a wait that had nothing to wait for, its record included
_IN_TIME: Final = 0.02  # of the loop's time, that waits for copies may take


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Copies are there long before they are needed, and their buffers let fewer CTAs onto an SM.

    A copy that starts s - 1 steps ahead is there in time if s - 1 steps take as long as it does: 690 cycles
    (450 on the emulator), or what copies took that were waited for, if that is longer. So a loop needs one
    stage more than that time has steps. It has too many if it waits for copies for at most 2 % of its time,
    and with the stages that it needs, each with its part of the shared memory, more CTAs would fit. Gain:
    the time of warps in waits and in loops' own time, times the part of the places for CTAs that these
    stages keep empty: as if the others hid all of it there. Confidence: low; not all shared memory is of
    stages. The line is that of the loop.
    """
    spans = judged.spans
    stages = int(judged.configuration.get("num_stages") or 0)
    copies = judged.of_class("async_copy") & (spans.iteration >= 0)
    if stages < 3 or not copies.any() or partitions_of(judged) > 1:
        return
    room = room_for_stages(judged)
    if room is None:
        if not judged.emulated:
            yield NotMeasured("many-stages: nobody says what the binary takes")
        return
    loop = _loop_around(judged, copies)
    if loop < 0:
        return
    rows = spans.site == loop
    steps = int(spans.iteration[copies].max()) + 1
    step = float(spans.duration[rows].mean()) / steps
    waits = judged.of_class("wait") & ~judged.for_dots & (spans.iteration > 0)
    waited = float(np.maximum(spans.duration[waits] - _PASSED, 0).sum())
    if waited > _IN_TIME * float(spans.duration[rows].sum()):
        return
    latency = _latency(judged)
    needed = max(2, 1 + ceil(latency / max(1.0, step)))
    fitting = room.ctas_with(needed)
    if needed >= stages or fitting <= room.ctas:
        return
    idle = judged.of_class("wait", "barrier") | judged.of_kind("loop", "iteration")
    share = judged.share_pct(float(spans.own[idle].sum()))
    file, line = judged.at(loop)
    yield Finding(
        "many-stages",
        file,
        line,
        f"{stages} stages start copies {(stages - 1) * step:,.0f} cycles ahead, which are there after "
        f"{latency:,.0f}: {needed} would do, with about {room.shared_with(needed):,} bytes of shared memory "
        f"for {room.shared_bytes:,}, so that {fitting} CTAs fit on an SM where {room.ctas} run; "
        f"{share:.0f} % of warp time is waits and the loop's own",
        f"num_stages={needed}",
        share * (1 - room.ctas / fitting),
        "low",
    )


def _loop_around(judged: KernelAnalysis, copies: np.ndarray) -> int:
    """The site of the loop that most copies are in, -1 if none is recorded."""
    spans, kinds = judged.spans, judged.sites["kind"].to_numpy()
    at = spans.parent[copies]
    for _ in range(8):
        outside = (at >= 0) & (kinds[spans.site[np.maximum(at, 0)]] != "loop")
        if not outside.any():
            break
        at = np.where(outside, spans.parent[np.maximum(at, 0)], at)
    inside = (at >= 0) & (kinds[spans.site[np.maximum(at, 0)]] == "loop")
    return int(np.bincount(spans.site[at[inside]]).argmax()) if inside.any() else -1


def _latency(judged: KernelAnalysis) -> float:
    """Cycles until a copy is there: what those took on average that were waited for, at least an idle
    memory's."""
    least = float(copy_latency_cycles(judged.emulated))
    df, rows = judged.tables.df, judged.spans.row
    first, last = int(rows[0]), int(rows[-1]) + 1
    wait = df["wait"].to_numpy()[first:last]
    flights = np.flatnonzero(wait >= 0)
    ends = wait[flights]
    late = df[DURATION].to_numpy()[ends] > _PASSED
    names = df["scope"].astype("str").str.startswith("async copy")
    late &= names.to_numpy()[first:last][flights]
    if not late.any():
        return least
    return max(least, float(df[DURATION].to_numpy()[first:last][flights[late]].mean()))
