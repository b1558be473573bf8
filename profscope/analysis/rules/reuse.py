"""Rules about bytes loaded again, by one program or by several."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from profscope.analysis.cause import Quantity, of_peak, of_samples
from profscope.analysis.evidence_table import ATOMIC_OPS, LOAD_OPS, LOADED, SECTOR_BYTES, Mask, Place
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import DOTS, FROM_GLOBAL, Kernel
from profscope.analysis.rules.products import GROWS, larger_tiles, tile_of
from profscope.analysis.rules.rule import Rule, Where
from profscope.instrument_passes.ablation.rewrite import RESIDENT
from profscope.instrument_passes.analyses.graph import AXES, LOOPS, Node

__all__ = ["RULES", "repeated_loads", "tensor_bytes_at"]

_OF_L1: Final = ("l1", "lsu")
_QUEUED: Final = ("lg_throttle", "long_scoreboard", "mio_throttle", "not_selected", "selected", "wait")
_WAITS: Final = ("long_scoreboard", "lg_throttle", "barrier")
_UNCOUNTED: Final = ("UTMALDG", "UBLKCP")  # whose sectors no instruction count has


# A value that the program has loaded before.


class _Repeated(NamedTuple):
    """Loads at a line that read again. before: the line that has read it, 0 for an earlier step of the loop.
    share: of the loads at the line."""

    before: int
    share: float


def repeated_loads(kernel: Kernel) -> dict[int, _Repeated]:
    """By line, loads whose pointer is computed as an earlier load's, or in the same way in each step. If a
    line has a load in a loop, only loads in loops count: the others load for its first steps."""
    graph, earlier = kernel.graph, dict[int, list[Node]]()
    again, loads = dict[int, list[int]](), Counter[int]()
    located = [node for node in graph.nodes if node.name in FROM_GLOBAL and node.operands]
    in_loops = {node.line for node in located if node.loops}
    for node in located:
        pointer = node.operands[0]
        counts = node.line > 0 and (bool(node.loops) or node.line not in in_loops)
        loads[node.line] += counts
        alike = earlier.setdefault(graph.number(pointer), [])
        before = next((other.line for other in alike if other.line and _runs_before(other, node)), None)
        varies = graph.depends(pointer).varies_in
        if counts and before is not None:
            again.setdefault(node.line, []).append(before)
        elif counts and any(loop not in varies for loop in node.loops):
            again.setdefault(node.line, []).append(0)
        alike.append(node)
    return {line: _Repeated(before[0], len(before) / loads[line]) for line, before in again.items()}


def _runs_before(earlier: Node, later: Node) -> bool:
    """Whether the earlier op has run whenever the later one does: not in another branch. Loops are taken to
    have a step."""
    block, around = earlier.op.parent, [each.op.parent for each in (later, *later.around)]
    while block is not None and block not in around:
        loop = block.parent_op
        block = loop.parent if loop is not None and loop.name == LOOPS[0] else None
    return block is not None


def _loaded_again(kernel: Kernel) -> Iterator[Where]:
    """Without the cause the later load is gone, and waits for it; if its traffic binds the kernel, also waits
    for other loads behind it."""
    table = kernel.table
    for line, again in repeated_loads(kernel).items():
        rows = kernel.at({line}) & table.of(*LOAD_OPS)
        if not table.total("sectors", rows):
            continue
        waits = again.share * table.waits(kernel.at({line}) & table.of_class(*LOADED[:2]))
        earlier = f"line {again.before}" if again.before else "the previous step"
        edit = Edit(waits, sectors=table.amount("sectors") * without(rows, again.share))
        kept = kernel.resources.kept(edit)
        held = kernel.resources.held_by_traffic(kept, 1 - kept["l1"]) or 0.0
        yield Where(
            kernel.line(line), replace(edit, removed=max(waits, held)),
            {
                "earlier": earlier, "waiting": of_samples(waits),
                "repeated": Quantity(100 * again.share * table.share("sectors", rows), "% of all sectors"),
            },
        )  # fmt: skip


# Bytes of a tensor that loads ask L1 for several times.


def _overlapping(kernel: Kernel) -> Iterator[Where]:
    """Loads ask for several times the bytes of their tensor, L1 has them, and nothing is busier than L1 and
    its queue. Without it each byte is loaded once, or, where all programs load the same and none loads a byte
    twice, as often as tuned kernels read operands. Gathers are left out: how much of them overlaps is
    unknown."""
    table = kernel.table
    l1 = max(kernel.used.get(name, 0.0) for name in _OF_L1)
    others = max(kernel.used.get(name, 0.0) for name in ("dram", "l2", "issue", "tensor"))
    if l1 < thresholds.BOUND or l1 <= others or kernel.graph.named(DOTS):
        return
    touched = {line: least for (_, line), least in _touched(kernel, table.of("LDG")).items()}
    repeated = repeated_loads(kernel)
    again = {}
    for line, size in touched.items():
        tensor, rests = tensor_bytes_at(kernel, line), kernel.addresses_at(line)
        is_plain = line not in repeated and not any(each.loads or each.has_division for each in rests)
        if is_plain and size >= thresholds.REREAD * tensor:
            again[line] = size - tensor
    share = sum(again.values()) / max(1.0, sum(touched.values()))
    rows = kernel.at(set(again)) & table.of("LDG")
    if not again or min(share, share * table.share("sectors", rows)) < thresholds.MUCH:
        return
    line = max(again, key=lambda each: again[each])
    tensor = tensor_bytes_at(kernel, line)
    is_alike = not any(each.axes for each in kernel.addresses_at(line))
    is_shared = is_alike and touched[line] <= tensor * kernel.grid
    part = share * (1 - 1 / thresholds.REREAD) if is_shared else share
    yield Where(
        kernel.line(line), Edit(part * table.stalled(*_QUEUED), without(rows, part)),
        {
            "asked": Quantity(touched[line] / 1e6, "MB"), "bytes": Quantity(tensor / 1e6, "MB"),
            "used": of_peak(l1),
        },
    )  # fmt: skip


def _touched(kernel: Kernel, rows: Mask) -> dict[Place, float]:
    """By line, the bytes that a launch's loads need: of sectors and ideal ones the fewer."""
    table = kernel.table
    sectors, ideal = (table.by_place(table.amount(name), rows & (table.amount("sectors") > 0))
                      for name in ("sectors", "sectors_ideal"))  # fmt: skip
    return {place: SECTOR_BYTES * min(sectors[place], ideal[place]) for place in sectors}


def tensor_bytes_at(kernel: Kernel, line: int) -> float:
    """Bytes of the tensors that loads at a line read; infinite if one is unknown."""
    return kernel.bytes_of(_tensors_at(kernel, line))


def _tensors_at(kernel: Kernel, line: int) -> frozenset[int]:
    """The positions of these tensors' arguments; none if one is not known."""
    loads = [node for node in kernel.accesses_at(line) if node.name in FROM_GLOBAL]
    found = [kernel.graph.depends(node.operands[0]).arguments or frozenset() for node in loads]
    return frozenset[int]().union(*found) if all(found) else frozenset()


# Bytes that DRAM, or L2, sends to several programs.


def _sent_again(kernel: Kernel) -> Iterator[Where]:
    """DRAM sends the same bytes several times: caches lose them before the next program comes. Kernels with
    TMA are left out, as its copies are not counted. A load has no more distinct bytes than its tensor; if its
    address does not depend on an axis of the grid, no more than one program along that axis."""
    table = kernel.table
    dram, read = kernel.used.get("dram", 0.0), kernel.counters.get("dram_read", 0.0)
    if dram < thresholds.BOUND or table.total("executed", table.of(*_UNCOUNTED)):
        return
    asked = table.by_place(table.amount("sectors"), table.of(*LOAD_OPS) & (table.amount("sectors") > 0))
    touched = _touched(kernel, table.of(*LOAD_OPS))
    different = {place: _different(kernel, place[1], each) for place, each in touched.items()}
    needed = _distinct(kernel, different)
    shared = [place for place in asked if different[place] < touched[place]]
    again = read - needed - SECTOR_BYTES * table.sectors(*ATOMIC_OPS)
    moved = read + kernel.counters.get("dram_write", 0.0)
    if not shared or again < max(thresholds.MUCH * read, thresholds.NOISE_PCT / 100 * moved):
        return
    if again > SECTOR_BYTES * sum(asked[place] for place in shared):  # other loads' bytes are among those
        return
    yield Where(
        max(shared, key=lambda place: touched[place] - different[place]), _sent_once(kernel, needed),
        {
            "read": Quantity(read / 1e6, "MB"), "different": Quantity(needed / 1e6, "MB"),
            "dram": of_peak(dram),
        },
    )  # fmt: skip


def _sent_from_afar(kernel: Kernel) -> Iterator[Where]:
    """What DRAM sends is not known, but programs load several times the different bytes of a line, and a
    launch in which they come from near by takes less. Without it each byte comes once."""
    if "traffic" in kernel.known or not len(kernel.experiments):
        return
    every = _touched(kernel, kernel.table.of(*LOAD_OPS))
    for place, touched in every.items():
        different = _different(kernel, place[1], touched)
        saved = kernel.saved(RESIDENT, place)
        if saved < thresholds.MUCH or touched < thresholds.REREAD * max(1.0, different):
            continue
        part = (touched - different) / sum(every.values())
        kept = dict.fromkeys(("dram", "l2", "l1", "lsu"), 1 - part)
        yield Where(
            place, Edit(saved * (1 - different / touched), kept=kept),
            {
                "asked": Quantity(touched / 1e6, "MB"), "different": Quantity(different / 1e6, "MB"),
                "saved": Quantity(100 * saved, "% of the time"),
            },
        )  # fmt: skip


def _distinct(kernel: Kernel, different: dict[Place, float]) -> float:
    """Bytes: those of lines that read from the same tensors are among these tensors'."""
    by_tensors: defaultdict[frozenset[int], float] = defaultdict(float)
    for (_, line), each in different.items():
        by_tensors[_tensors_at(kernel, line)] += each
    return sum(min(each, kernel.bytes_of(of)) for of, each in by_tensors.items())


def _different(kernel: Kernel, line: int, touched: float) -> float:
    """How many of the bytes that loads at a line touch are different: no more than their tensors have, and
    programs along an axis on which no address depends load the same."""
    values = (value for node in kernel.accesses_at(line) for value in node.operands)
    axes = kernel.graph.depends(*(value for value in values if "memdesc" not in value.type)).axes
    programs = math.prod(kernel.sides[axis] for axis in AXES if axis not in axes)
    return min(touched / programs, tensor_bytes_at(kernel, line))


def _sent_once(kernel: Kernel, needed: float) -> Edit:
    """Without the bytes beyond those needed. DRAM sends each byte once, and fills L2 once. If one program
    can do what several do, it also asks L2 once; but the tiles of a product are limited by registers."""
    table, resources = kernel.table, kernel.resources
    loads = table.of(*LOAD_OPS)
    part = min(1.0, needed / max(1.0, SECTOR_BYTES * table.total("sectors", loads)))
    edit = Edit(0.0, sectors=table.amount("sectors") * without(loads, 1 - part))
    kept = resources.kept(edit)
    if kernel.graph.named(DOTS):
        read = kernel.counters.get("dram_read", 0.0)
        kept["l2"] = (resources.l2_bytes + needed) / (resources.l2_bytes + read)
    dram = kernel.used.get("dram", 0.0)
    is_limit = min(1.0, dram / thresholds.ATTAINABLE_DRAM)  # for what part of the time
    removed = (1 - kept["dram"]) * max(is_limit, table.stalled(*_WAITS))
    return Edit(removed, kept=kept)


def _small_tiles(kernel: Kernel) -> Iterator[Where]:
    """Tiles are so small that loads ask for several times the bytes that DRAM sends, and nothing is busier
    than L2 or DRAM. Without it tiles are as large as those of good products."""
    used = {
        name: kernel.used.get(name, 0.0) / thresholds.attainable(name)
        for name in ("l2", "dram", "tensor", *GROWS)
    }
    asked, read = SECTOR_BYTES * kernel.table.sectors(*LOAD_OPS), kernel.counters.get("dram_read", 0.0)
    traffic = max(kernel.used.get(name, 0.0) for name in ("l2", "dram"))
    if "dram_read" not in kernel.counters or traffic < thresholds.BOUND or asked < thresholds.REREAD * read:
        return
    removed, kept = larger_tiles(kernel)
    tile = tile_of(kernel)
    if not removed or tile is None or max(used["l2"], used["dram"]) < used["tensor"]:
        return
    yield Where(
        kernel.table.place_executed(kernel.table.of(*LOAD_OPS)) or kernel.place, Edit(removed, kept=kept),
        {
            "rows": Quantity(tile.rows, "rows"), "columns": Quantity(tile.columns, "columns"),
            "asked": Quantity(asked / 1e6, "MB"), "ratio": Quantity(asked / max(1.0, read), "times"),
            "l2": of_peak(kernel.used.get("l2", 0.0)), "dram": of_peak(kernel.used.get("dram", 0.0)),
            "tensor": of_peak(kernel.used.get("tensor", 0.0)),
        },
    )  # fmt: skip


_ALL: Final = frozenset({"counts", "waits", "ttgir"})
_TOGETHER: Final = (
    "a program that does what several do now, or an order of the grid in which those that load the same run "
    "together"
)
RULES: Final = (
    Rule(
        "redundant-load", _ALL, _loaded_again,
        "{earlier} already loaded this address: {repeated} are loaded again; {waiting} wait for that",
        "keep the data in registers (a block that holds the whole row), merge the passes, or load in front "
        "of the loop",
    ),
    Rule(
        "redundant-load", _ALL | {"use"}, _overlapping,
        "loads at this line request {asked} from {bytes} of tensors; of L1 and LSU one is at {used}",
        "keep in registers what the next step, or the neighbouring element, needs again; or a program that "
        "does what several do now, with what they all load",
    ),
    Rule(
        "tile-reread", _ALL | {"traffic"}, _sent_again,
        "DRAM sends {read}, of which {different} are distinct; DRAM is at {dram}; most repeats come from "
        "this line",
        _TOGETHER, of_launch=True,
    ),
    Rule(
        "tile-reread", _ALL, _sent_from_afar,
        "loads at this line ask for {asked}, of which {different} are different; from near by they would "
        "save {saved} (by experiment)",
        _TOGETHER, of_launch=True,
    ),
    Rule(
        "tile-reread", _ALL | {"traffic"}, _small_tiles,
        "tiles of {rows} and {columns}: loads ask for {asked}, {ratio} what comes from DRAM; L2 is at {l2}, "
        "DRAM at {dram}, the tensor cores at {tensor}",
        "larger tiles, or an order of the grid in which neighbours share rows and columns", of_launch=True,
    ),
)  # fmt: skip
