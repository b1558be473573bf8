"""Rules about the launch: number, size and balance of CTAs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Quantity, of_peak, of_samples
from profscope.analysis.evidence_table import LOADED
from profscope.analysis.resources import EXCHANGES, RESULTS, Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import Kernel
from profscope.analysis.rules.rule import Rule, Where
from profscope.instrument_passes.analyses.graph import Graph, Node, element_bytes, size_of

__all__ = ["RULES", "differs_by_program"]

_STREAMS: Final = re.compile(r"^tt\.load$|async_copy|descriptor_load")
_CHOICES: Final = ("scf.while", "scf.if", "cf.cond_br", "cf.switch", "tt.call")
_REDUCE: Final = r"^tt\.reduce$"
_SCAN: Final = r"^tt\.scan$"


def _few_ctas(kernel: Kernel) -> Iterator[Where]:
    """Without it the same work runs on all SMs. Expected is between the times that would remain, by the part
    of the SMs that is idle: the larger it is, the finer the work is split; of few idle ones, no more than
    twice their part."""
    part = kernel.grid / max(1, kernel.sms)
    if 100 * (1 - part) < thresholds.NOISE_PCT:
        return
    full = part / max(1, kernel.room)
    busy = max(full, kernel.resources.busiest())
    expected = max(part * min(1.0, busy / part) ** (1 - part), 2 * part - 1)
    yield Where(
        kernel.place, Edit(1 - expected),
        {
            "grid": Quantity(kernel.grid, "CTAs"), "device": Quantity(kernel.sms, "SMs"),
            "idle": Quantity(100 * (1 - part), "% of SMs"),
        },
    )  # fmt: skip


def _partial_wave(kernel: Kernel) -> Iterator[Where]:
    """Without it the last wave is as full as the others: no SM has more CTAs than another."""
    if kernel.waves <= 1 or not (kernel.resources.idle or kernel.waits_basis == "samples"):
        return  # without samples, the times of CTAs have to prove it
    of_sm, of_places = (1 - each / math.ceil(each) for each in (kernel.grid / kernel.sms, kernel.waves))
    lost = min(of_sm, kernel.resources.idle) if kernel.resources.idle else of_sm
    yield Where(
        kernel.place, Edit(lost),
        {
            "grid": Quantity(kernel.grid, "CTAs"), "waves": Quantity(kernel.waves, "waves"),
            "wave": Quantity(kernel.sms * kernel.room, "CTAs"),
            "empty": Quantity(100 * of_places, "% of all slots"),
        },
    )  # fmt: skip


def _uneven_ctas(kernel: Kernel) -> Iterator[Where]:
    """Without it each CTA takes the mean time; many waves even it out. CTAs are uneven if they are, and their
    work may differ; in a single wave also if the bounds of their loops differ and places stay empty."""
    cycles, idle = kernel.cta_cycles, 0.0
    if kernel.sms and kernel.resources.idle:
        around = 1e3 * thresholds.LAUNCH_US / kernel.counters.get("time", math.inf)
        idle = max(0.0, kernel.resources.idle - around - max(0.0, 1 - kernel.grid / kernel.sms))
    if not cycles.any() or (kernel.grid < kernel.sms and not idle and not kernel.emulated):
        return
    if kernel.graph.nodes and not any(differs_by_program(kernel.graph, node) for node in kernel.graph.nodes):
        return
    if kernel.emulated and len(kernel.graph.lines(r"^tt\.return$")) > 1:
        return  # programs that return at once are most of a small launch; bare bodies have the same lines
    waves = max(1, math.ceil(kernel.waves))
    uneven = _uneven_loops(kernel)
    is_single = waves == 1 and not kernel.emulated and bool(uneven)
    if cycles.std() < thresholds.UNEVEN * cycles.mean() and not is_single:
        return
    extra = float(cycles.max() - cycles.mean()) / waves
    lost = idle if kernel.resources.idle else extra / (float(cycles.mean()) + extra)
    loops = sorted(uneven) or sorted(kernel.graph.lines(r"^scf\.(for|while)$"))
    place = kernel.table.place_waited_for(kernel.table.all, "long_scoreboard", "wait", "barrier")
    yield Where(
        kernel.line(loops[0]) if loops else place or kernel.place, Edit(lost),
        {
            "shortest": Quantity(float(cycles.min()), "cycles"),
            "longest": Quantity(float(cycles.max()), "cycles"),
            "mean": Quantity(float(cycles.mean()), "cycles"), "recorded": Quantity(len(cycles), "CTAs"),
        },
    )  # fmt: skip


def _uneven_loops(kernel: Kernel) -> set[int]:
    """The lines of loops of which a bound depends on the program's id."""
    loops = kernel.graph.named(r"^scf\.for$")
    return {
        loop.line for loop in loops if any(kernel.graph.depends(each).axes for each in loop.operands[:2])
    } - {0}


def differs_by_program(graph: Graph, node: Node) -> bool:
    """Whether programs may do more or less than others at an op: at a branch of the source, or in a loop
    whose number of steps depends on the program's id, or on data. From x to x plus n there are n steps."""
    if node.name in _CHOICES:  # those that recording adds are at the kernel's own line
        return node.line not in {each.line for each in node.around if each.name == "tt.func"}
    if node.name != "scf.for":
        return False
    first, last = node.operands[:2]
    asked = [first, last]
    if last.maker is not None and last.maker.name == "arith.addi":
        added = [each for each in last.maker.operands if each is not first]
        asked = added if len(added) == 1 else asked
    rests = graph.depends(*asked)
    return bool(rests.axes or rests.of_data)


def _short_ctas(kernel: Kernel) -> Iterator[Where]:
    """Without it fewer CTAs do the same, each more."""
    launch_cycles = kernel.counters.get("time", 0.0) * 1e-9 * kernel.counters.get("clock", 0.0)
    interval = launch_cycles * kernel.sms / kernel.grid
    if 0 < interval < thresholds.CTA_START_CYCLES and kernel.waves > 1:
        busiest = of_peak(max(kernel.used.values()))
        cites = {"interval": Quantity(interval, "cycles"), "busiest": busiest}
        yield Where(kernel.place, Edit(1.0), cites)


def _few_warps(kernel: Kernel) -> Iterator[Where]:
    """Without it more warps hide each other's waits for loads or, if few wait for that, for the results of
    instructions. Only if more could be there: the grid has a quarter of the CTAs that fit at once, or shared
    memory, which holds more stages than loads need, limits them. With one element a thread, waiting on its
    own results, a kernel is a dependent chain: smaller blocks do not help."""
    few = 0 < kernel.waves <= 1 / thresholds.IN_FLIGHT and not kernel.resources.is_bound
    deep = kernel.stages > thresholds.IN_FLIGHT and 0 < kernel.room < kernel.room_by_registers
    stalls: tuple[str, ...] = ("long_scoreboard",)
    by: tuple[str, ...] = LOADED
    if kernel.table.stalled(*stalls, by=by) < thresholds.MUCH:
        stalls, by = RESULTS, ()
        few &= (
            max((node.size for node in kernel.graph.nodes), default=0) > kernel.threads
            or not kernel.graph.nodes
        )
    waits = kernel.table.stalled(*stalls, by=by)
    if not (few or deep) or waits <= thresholds.MUCH or kernel.spills or kernel.grid < kernel.sms:
        return
    rows = kernel.table.of_class(*by) if by else kernel.table.all
    yield Where(
        kernel.table.place_waited_for(rows, *stalls) or kernel.place,
        Edit(kernel.resources.hidden(waits, thresholds.IN_FLIGHT if few else 2)),
        {
            "resident": Quantity(kernel.resources.resident_warps, "warps"), "waiting": of_samples(waits),
            "what": "loads (`long_scoreboard`)" if by else "results of instructions",
        },
        advice="more CTAs: smaller blocks, split the loop" if few
        else "fewer stages (num_stages), so that more CTAs fit on an SM",
    )  # fmt: skip


def _reducing_warps(kernel: Kernel) -> Iterator[Where]:
    """What a CTA loads at once and reduces gives each thread no more than a vector of 16 bytes, so that warps
    exchange more than they add up. Without it a warp for each scheduler has more each: nobody waits for other
    warps, and shared memory passes no exchange."""
    table = kernel.table
    exchange = kernel.at(kernel.graph.lines(_REDUCE)) & table.of("LDS", "STS", "BAR", "SHFL")
    waits, part = table.stalled(*EXCHANGES), 1 - thresholds.SCHEDULERS / max(1, kernel.warps)
    if not (exchange & table.of("BAR")).any() or waits <= thresholds.MUCH or _is_streamed(kernel):
        return
    left = without(table.all, part)  # what all warps do alike
    left[exchange] = 0.0
    edit = Edit(max(part, waits), left, wavefronts=table.amount("wavefronts") * left)
    yield from _many_warps(kernel, _REDUCE, edit, waits)


def _scanning_warps(kernel: Kernel) -> Iterator[Where]:
    """The same of a scan, which a loop may have: without it there are fewer steps between warps."""
    table, part = kernel.table, 1 - thresholds.SCHEDULERS / max(1, kernel.warps)
    rows = kernel.at(kernel.graph.lines(_SCAN)) & ~table.of("LDG", "STG")
    waits = table.waits(rows)
    if waits >= thresholds.MUCH and (rows & table.of("BAR")).any():
        yield from _many_warps(kernel, _SCAN, Edit(part * waits, without(rows, part)), waits)


def _is_streamed(kernel: Kernel) -> bool:
    return any(
        _STREAMS.search(node.name) and (node.name != "tt.load" or node.size)
        for node in kernel.graph.nodes
        if node.loops
    )


def _many_warps(kernel: Kernel, ops: str, edit: Edit, waits: float) -> Iterator[Where]:
    """If schedulers have several warps, whose threads have few bytes of the largest tensor that such ops
    combine."""
    sizes = [
        size_of(operand.type) * element_bytes(operand.type)
        for node in kernel.graph.named(ops)
        for operand in node.operands
    ]
    each = max(sizes) / kernel.threads if sizes else math.inf
    if kernel.warps > thresholds.SCHEDULERS and each <= thresholds.VECTOR_BYTES:
        cites = {
            "warps": Quantity(kernel.warps, "warps"), "each": Quantity(each, "bytes"),
            "waiting": of_samples(waits),
        }  # fmt: skip
        yield Where(kernel.place, edit, cites)


RULES: Final = (
    Rule(
        "idle-sms", frozenset(), _few_ctas,
        "{grid} on {device}: {idle} run nothing",
        "smaller tiles, another axis of the grid, or split the reduction over CTAs", "high", of_launch=True,
    ),
    Rule(
        "tail", frozenset(), _partial_wave,
        "{grid} fill {waves}, each of {wave}: the last wave leaves {empty} empty",
        "tiles or a grid that fill the last wave, stream-K, or a persistent kernel", of_launch=True,
    ),
    Rule(
        "load-imbalance", frozenset({"ctas"}), _uneven_ctas,
        "CTAs take {shortest} to {longest}, {mean} on average ({recorded} were timed)",
        "sort or interleave the work, or fetch the next tile from a counter", of_launch=True,
    ),
    Rule(
        "tiny-ctas", frozenset({"use"}), _short_ctas,
        "an SM starts a CTA every {interval}, and no resource is above {busiest}: starting CTAs takes the "
        "time",
        "more elements for each program: a larger block, or a loop over several", of_launch=True,
    ),
    Rule(
        "low-occupancy", frozenset({"use", "waits"}), _few_warps,
        "{resident} on an SM, of 64: {waiting} wait for {what}, and few other warps hide it", "",
        of_launch=True,
    ),
    Rule(
        "too-many-warps", frozenset({"counts", "waits", "ttgir"}), _reducing_warps,
        "{warps} a CTA, whose threads reduce {each} each; {waiting} wait for other warps or the exchange "
        "with them",
        "fewer warps (num_warps), so that each has more elements and less is exchanged",
    ),
    Rule(
        "too-many-warps", frozenset({"counts", "waits", "ttgir"}), _scanning_warps,
        "{warps} a CTA, whose threads scan {each} each; {waiting} wait in the scan",
        "fewer warps (num_warps), so that each has more elements and less is exchanged",
    ),
)  # fmt: skip
