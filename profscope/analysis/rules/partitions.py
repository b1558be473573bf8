"""partition-starved: warp-specialised kernels whose partitions wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.cause import Quantity, of_peak, of_samples
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.sync_points import partition_of_warp, partitions_of
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.analysis.rules.rule import Rule, Where, as_removed

__all__ = ["RULES"]

_MEASURED: Final = frozenset({"counters", "samples", "ttgir"})


def _by_samples(kernel: Kernel) -> Iterator[Where]:
    """Without it the partition of the tensor cores does not wait for data."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    if not kernel.graph.named("warp_specialize") or tensor > thresholds.NEAR_ROOF:
        return
    waits = table.stalled("long_scoreboard", "barrier")
    place = table.place_waited_for(table.of_class("mma", "tma", "barrier"), "long_scoreboard", "barrier")
    if place is None or place == kernel.place:  # of what the compiler has put there for the kernel
        place = kernel.line(min(kernel.graph.lines(DOTS, loop=True), default=0))
    yield Where(
        place, cites={"tensor": of_peak(tensor), "waiting": of_samples(waits)},
        amounts={"removed": kernel.resources.hidden(waits)},
    )  # fmt: skip


def _by_spans(kernel: Kernel) -> Iterator[Where]:
    """If that was not measured, by spans, which every profile has. Of each partition: the time of its waits
    for other partitions in its loop, less 100 cycles each, over the CTA's time. What counts is the partition
    that waits least, among those with dots, or among all if none has dots: the others only wait for it. Waits
    for dots are its own work."""
    judged = kernel.analysis
    if kernel.known >= _MEASURED or partitions_of(judged) < 2:
        return
    spans, sites = judged.spans, judged.sites
    partition = partition_of_warp(judged)[spans.warp]
    others = (sites["cls"] == "wait") & ~sites["scope"].str.startswith("tma store")
    rows = others.to_numpy()[spans.site] & (spans.iteration >= 0) & ~judged.for_dots
    with_dots = np.unique(partition[judged.of_class("mma")])
    working = with_dots if len(with_dots) else np.unique(partition[spans.iteration >= 0])
    if not len(working) or not rows.any():
        return
    lost = np.where(rows, np.maximum(spans.duration - thresholds.PASSED_CYCLES, 0), 0)
    ctas = float((judged.ctas["cycles"].to_numpy()[np.unique(spans.cta)]).sum())
    shares = {}
    for each in working:
        warps = len(np.unique(spans.warp[partition == each])) / max(1, len(np.unique(spans.cta)))
        shares[int(each)] = float(lost[partition == each].sum()) / max(1.0, ctas * warps)
    least = min(shares, key=lambda each: shares[each])
    mine = partition == least
    by_site = judged.total(lost, rows & mine)
    site = int(np.argmax(by_site))
    count = int((rows & mine & (spans.site == site)).sum())
    if by_site[site] < thresholds.PASSED_CYCLES * count:
        return
    yield Where(
        _place(judged, site, mine),
        cites={
            "partition": _name(judged, least),
            "waiting": Quantity(100 * shares[least], "% of the CTA's time"),
            "where": str(sites["scope"].iloc[site]),
            "each_time": Quantity(by_site[site] / max(1, count), "cycles"),
        },
        amounts={"removed": shares[least]},
    )  # fmt: skip


def _place(judged: KernelAnalysis, wait: int, mine: NDArray[np.bool_]) -> tuple[str, int]:
    """Where a wait is; the partition's first dot where the compiler left it no place but the kernel's."""
    if judged.at(wait) != judged.place:
        return judged.at(wait)
    dots = judged.spans.site[mine & judged.of_class("mma")]
    return judged.at(int(dots[0])) if len(dots) else judged.place


def _name(judged: KernelAnalysis, site: int) -> str:
    scope = str(judged.sites["scope"].iloc[site])
    return scope.removeprefix(judged.kernel).strip() or "the default partition"


_ADVICE: Final = "more buffers between the partitions (num_stages), or more warps for the slower one"
RULES: Final = (
    Rule(
        "partition-starved", _MEASURED, _by_samples, as_removed,
        "the tensor pipe is at {tensor}; {waiting} wait for the other partition", _ADVICE,
    ),
    Rule(
        "partition-starved", frozenset(), _by_spans, as_removed,
        "{partition} waits {waiting} at {where}, {each_time} a time", _ADVICE,
    ),
)  # fmt: skip
