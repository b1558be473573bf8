"""Rules about warps that wait for each other: late warps, reductions in each step, layout conversions, and
partitions of warp-specialised kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.cause import Quantity, of_instructions, of_peak, of_samples
from profscope.analysis.evidence_table import MMA_OPS, WARP_LANES, Mask
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.replay import partition_of_warp, partitions_of
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import DOTS, Kernel, computed_by, is_elementwise, is_store
from profscope.analysis.rules.launch import LOADED
from profscope.analysis.rules.products import slow_products
from profscope.analysis.rules.rule import Rule, Where, as_removed, rows_removed
from profscope.instrument_passes.analyses.graph import Graph, Node, size_of

__all__ = ["RULES", "conversion_lines", "early_reductions"]

_SEEN: Final = frozenset({"use", "waits", "ttgir"})
_MEETING: Final = ("barrier", "short_scoreboard", "mio_throttle")
_SHARED: Final = ("LDS", "STS", "LDSM", "STSM")
_EXCHANGE: Final = ("LDS", "STS", "BAR")
_REDUCE: Final = r"^tt\.reduce$"


# Warps that come late.


def _late(kernel: Kernel) -> Iterator[Where]:
    """A loop ends after different numbers of steps in different lanes, so in different warps too, and then
    warps meet. Without it all come when the mean one does: the time that they wait at barriers is gone. The
    branches of scans and reductions are none of loops: some lanes have nothing to add there."""
    table = kernel.table
    barriers, executed = table.of("BAR"), table.amount("executed")
    each = table.amount("most_executed")
    meetings = float(each[barriers].max()) if barriers.any() else 0.0
    if not meetings:
        return
    lanes = table.amount("threads") / (WARP_LANES * executed.clip(min=1))
    uneven = (
        table.of("BRA", "BRX")
        & (lanes < 1)
        & (each > meetings)
        & ~kernel.at(kernel.graph.lines(r"tt\.(scan|reduce)"))
    )
    uneven &= table.line != kernel.place[1]  # of no line: spins on barriers of the hardware
    waits = table.samples_at(table.located, "barrier")
    if not uneven.any() or waits < thresholds.MUCH:
        return
    yield Where(
        table.place_sampled(table.all, "barrier") or kernel.place, uneven,
        cites={
            "loop": f"line {int(table.line[uneven][0])}", "waiting": of_samples(waits),
            "steps": Quantity(float(each[uneven].max()) / meetings, "steps"),
        },
        amounts={"removed": waits},
    )  # fmt: skip


# Reductions in each step.


def _partial_sums(kernel: Kernel) -> Iterator[Where]:
    """Without it what a step only adds to a sum stays in registers, and warps meet once, behind the loop: no
    barrier keeps the loads of later steps from being in flight."""
    table, early = kernel.table, early_reductions(kernel.graph)
    lines = early.keys() - slow_products(kernel)
    rows = kernel.at(lines)
    waits = table.waits(rows, *_MEETING)
    if waits < thresholds.MUCH or _has_mma(kernel):
        return
    loops = {loop for node in kernel.graph.named(_REDUCE) if node.line in lines for loop in node.loops}
    inside = {node.line for loop in loops for node in kernel.graph.inside(loop)} - {0}
    loads = table.waits(kernel.at(inside) & table.of_class(*LOADED), "long_scoreboard")
    overlap = kernel.warps > 1 and all(early.values()) and kernel.waits_basis == "samples"
    hidden = loads * (1 - 1 / thresholds.IN_FLIGHT) if overlap else 0.0
    yield _step(kernel, rows, rows & table.of(*_EXCHANGE, "SHFL"), waits, hidden)


def _needed_reductions(kernel: Kernel) -> Iterator[Where]:
    """The next step needs the result. Without it a single warp reduces: its lanes exchange values as those of
    each warp did, and nobody waits for shared memory or other warps."""
    table = kernel.table
    across = table.of("LDS") & kernel.at(kernel.graph.lines(_REDUCE, loop=True))
    lines = set(table.line[across].tolist()) - early_reductions(kernel.graph).keys() - slow_products(kernel)
    rows = kernel.at(lines)
    shared = rows & table.of(*_EXCHANGE)
    in_warps = (1 - 1 / kernel.warps) * table.waits(rows & table.of_class("warp exchange"), *_MEETING)
    waits = table.waits(shared, *_MEETING) + table.waits(rows & ~shared, "barrier")
    if waits + in_warps >= thresholds.MUCH and not _has_mma(kernel):
        yield _step(kernel, rows, shared, waits, in_warps)


def _has_mma(kernel: Kernel) -> bool:
    return kernel.table.total("executed", kernel.table.of(*MMA_OPS)) > 0


def _step(kernel: Kernel, rows: Mask, exchange: Mask, waits: float, hidden: float) -> Where:
    place = kernel.table.place_waited_for(rows, *_MEETING) or kernel.place
    return Where(place, exchange, {"waiting": of_samples(waits)}, {"waits": waits + hidden})


def _met_once(kernel: Kernel, where: Where) -> Edit:
    """If shared memory is at its limit, all wait for what fills it."""
    edit = Edit(0.0, without(where.mask))
    fullest = max(("shared", "l1"), key=lambda name: kernel.used.get(name, 0.0))
    is_full = kernel.used.get(fullest, 0.0) >= thresholds.NEAR_ROOF and not kernel.emulated
    held = 1 - kernel.resources.kept(edit)[fullest] if is_full else 0.0
    return Edit(max(float(where.amounts["waits"]), held), edit.instructions)


def early_reductions(graph: Graph) -> dict[int, bool]:
    """The lines of reductions in loops that could come behind the loop: each step only adds the result to
    what the loop carries, and no earlier step has a part in what one of the loop's is of. A recurrence needs
    its reductions in each step. And whether none has a part in any of them."""
    found: defaultdict[Node, dict[int, bool]] = defaultdict(dict)
    for node in graph.named(_REDUCE, loop=True):
        loop = node.loops[0]
        if _is_accumulated(graph, node, loop):
            found[loop][node.line] = not any(computed_by(operand, loop)[1] for operand in node.operands)
    return {
        line: all(lines.values()) for lines in found.values() if any(lines.values()) for line in lines if line
    }


def _is_accumulated(graph: Graph, reduction: Node, loop: Node) -> bool:
    """Whether all that uses a result in the loop combines it, element by element, with what the loop carries
    into what the loop carries on, and no step stores that."""

    def is_carried_on(node: Node) -> bool:
        users = list(graph.forward(node, graph.moves))
        is_yielded = any(each.name == "scf.yield" and each.loop is loop for each in users)
        is_combined = any(computed_by(value, loop)[1] for value in node.operands)
        return is_elementwise(node) and is_yielded and is_combined and not any(map(is_store, users))

    def goes_on(node: Node) -> bool:
        return node.loop is loop and is_elementwise(node) and not is_carried_on(node)

    users = [node for node in graph.forward(reduction, goes_on) if node.is_in(loop)]
    return bool(users) and all(goes_on(node) or is_carried_on(node) for node in users)


# Layout conversions.


def _conversions(kernel: Kernel) -> Iterator[Where]:
    """Without it data stays in the layout that its producer has. If shared memory binds the kernel, the waits
    for its queue are of what fills it, by the part that it puts in."""
    table, lines = kernel.table, conversion_lines(kernel.graph)
    here = kernel.at(set(lines))
    rows = here & table.of(*_SHARED)
    share = table.waits(here & table.of(*_SHARED, "BAR"))
    if max(kernel.used.get(name, 0.0) for name in ("shared", "l1", "lsu")) >= thresholds.BOUND:
        part = table.share("lsu", rows)
        share = max(share, part * table.stalled("short_scoreboard", "mio_throttle"))
    if share < thresholds.MUCH:
        return
    file, line = table.place_executed(rows) or kernel.place
    yield Where(
        (file, lines.get(line, line)), rows,
        cites={"moving": of_instructions(table.share("executed", rows)), "sampled": of_samples(share)},
        amounts={"removed": share},
    )  # fmt: skip


def conversion_lines(graph: Graph) -> dict[int, int]:
    """The lines of layout conversions in loops, and where the source asks for them: at the transposition that
    their loop has, if there is one. At the line of a reduction, which exchanges data, too, only those
    of a tensor as large as the one that it reduces."""
    reduced = defaultdict[int, int](int)
    for node in graph.named(_REDUCE):
        reduced[node.line] = max(reduced[node.line], *(size_of(each.type) for each in node.operands))
    turned = {node.loop: node.line for node in graph.named(r"^tt\.trans$")}
    return {
        node.line: turned.get(node.loop, node.line)
        for node in graph.named(r"^ttg\.convert_layout$", loop=True)
        if node.line and node.size >= reduced[node.line]
    }


# Partitions of a warp-specialised kernel.


def _starved_by_samples(kernel: Kernel) -> Iterator[Where]:
    """Without it the partition of the tensor cores does not wait for data."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    if not kernel.graph.named("warp_specialize") or tensor > thresholds.NEAR_ROOF:
        return
    waits = table.stalled("long_scoreboard", "barrier")
    place = table.place_waited_for(table.of_class("mma", "tma", "barrier"), "long_scoreboard", "barrier")
    if place is None or place == kernel.place:  # of what the compiler has put there for the kernel
        place = kernel.line(min(kernel.graph.lines(DOTS, loop=True), default=0))
    yield Where(
        place, cites={"tensor": f"the tensor pipe is at {of_peak(tensor)}; " if tensor else "",
                      "waiting": of_samples(waits)},
        amounts={"removed": kernel.resources.hidden(waits)},
    )  # fmt: skip


def _starved_by_spans(kernel: Kernel) -> Iterator[Where]:
    """If that was not measured, by spans, which every profile has. Of each partition: the time of its waits
    for other partitions in its loop, less 100 cycles each, over the CTA's time. What counts is the partition
    that waits least, among those with dots, or among all if none has dots: the others only wait for it. Waits
    for dots are its own work."""
    judged = kernel.analysis
    if kernel.known >= _SEEN or partitions_of(judged) < 2:
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
        _place_of_wait(judged, site, mine),
        cites={
            "partition": _partition_name(judged, least),
            "waiting": Quantity(100 * shares[least], "% of the CTA's time"),
            "where": str(sites["scope"].iloc[site]),
            "each_time": Quantity(by_site[site] / max(1, count), "cycles"),
        },
        amounts={"removed": shares[least]},
    )  # fmt: skip


def _place_of_wait(judged: KernelAnalysis, wait: int, mine: NDArray[np.bool_]) -> tuple[str, int]:
    """Where a wait is; the partition's first dot where the compiler left it no place but the kernel's."""
    if judged.at(wait) != judged.place:
        return judged.at(wait)
    dots = judged.spans.site[mine & judged.of_class("mma")]
    return judged.at(int(dots[0])) if len(dots) else judged.place


def _partition_name(judged: KernelAnalysis, site: int) -> str:
    scope = str(judged.sites["scope"].iloc[site])
    return scope.removeprefix(judged.kernel).strip() or "the default partition"


_ALL: Final = frozenset({"counts", "waits", "ttgir"})
_STEP: Final = "a reduction in each step of the loop: {waiting} wait for its exchange"
_BUFFERS: Final = "more buffers between the partitions (num_stages), or more warps for the slower one"
RULES: Final = (
    Rule(
        "late-warp", frozenset({"counts", "waits"}), _late, as_removed,
        "the loop at {loop} takes {steps} of a warp on average, depending on its data; {waiting} then wait "
        "for the last warp",
        "give all warps the same work: sort by length, another layout, or fewer barriers",
    ),
    Rule(
        "serial-reduction", _ALL, _partial_sums, _met_once, _STEP,
        "keep a tensor of partial sums, and reduce once after the loop",
    ),
    Rule(
        "serial-reduction", _ALL, _needed_reductions, _met_once, _STEP,
        "fewer warps (num_warps), or a layout in which one warp has all that is reduced",
    ),
    Rule(
        "layout-conversion", _ALL, _conversions, rows_removed,
        "{moving} move tensors from one layout to another through shared memory, again and again; "
        "{sampled} are there",
        "an order of ops in which both sides share a layout; transpose once",
    ),
    Rule(
        "partition-starved", _SEEN, _starved_by_samples, as_removed,
        "{tensor}{waiting} wait for the other partition", _BUFFERS,
    ),
    Rule(
        "partition-starved", frozenset(), _starved_by_spans, as_removed,
        "{partition} waits {waiting} at {where}, {each_time} a time", _BUFFERS,
    ),
)  # fmt: skip
