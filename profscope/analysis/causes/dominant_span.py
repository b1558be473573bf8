"""dominant-span: most of a CTA's critical path is one op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.replay import replay_of
from profscope.analysis.timeline.critical_path import median_cta

__all__ = ["causes"]

_DOMINANT: Final = 0.5
_SOME_PCT: Final = 10.0
# Ops that wait or go to memory; arithmetic is what a kernel is for.
_OPS: Final = ("load", "store", "atomic", "async_copy", "wait", "barrier")


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """One op that waits or goes to memory has at least half of the critical path of the median CTA.

    Gain: by how much that CTA would end earlier if the op took no time, run again with what waits for what.
    Confidence: medium; it is one CTA.
    """
    # What has half of the critical path takes some time of all warps; a replay is for such ops.
    of_ops = judged.total(judged.spans.own)[judged.sites["cls"].isin(_OPS).to_numpy()]
    if not len(of_ops) or judged.share_pct(float(of_ops.max())) < _SOME_PCT:
        return
    cta = median_cta(judged)
    if cta < 0:
        yield NotMeasured("dominant-span: its CTAs have too many spans to be run again")
        return
    replay = replay_of(judged, cta)
    path = replay.path()
    sites = judged.sites
    ops = {site: cycles for site, cycles in path.items() if sites["cls"].iloc[site] in _OPS}
    if not ops:
        return
    site = max(ops, key=lambda each: ops[each])
    share = ops[site] / max(1, replay.cycles)
    if share < _DOMINANT or sites["scope"].iloc[site].startswith("dot wait"):
        return
    file, line = judged.at(site)
    yield Finding(
        "dominant-span",
        file,
        line,
        f"{sites['scope'].iloc[site]} has {100 * share:.0f} % of the critical path of the median CTA, "
        f"{ops[site]:,} of {replay.cycles:,} cycles",
        "make this op shorter or start it earlier; prof.timeline.critical_path() lists the way with what "
        "each span brings",
        100 * (1 - replay.run({site: 0.0}) / max(1.0, replay.run({}))),
        "medium",
    )
