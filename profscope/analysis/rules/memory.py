"""Rules about accesses to memory: sectors, widths and waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from profscope.analysis.cause import Quantity, of_instructions, of_peak, of_samples
from profscope.analysis.evidence_table import (
    ATOMIC_OPS,
    LOAD_OPS,
    LOADED,
    SECTOR_BYTES,
    SHARED_OPS,
    STORE_OPS,
    WARP_LANES,
    Mask,
    Place,
)
from profscope.analysis.resources import LSU_QUEUES, QUEUES, Edit
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import Kernel
from profscope.analysis.rules.rule import BY_BINARY, Rule, Where
from profscope.instrument_passes.analyses.graph import Graph, Node, size_of

__all__ = ["RULES", "scattered_over"]

_SHARED_WAITS: Final = ("short_scoreboard", "mio_throttle", "lg_throttle")
_LOADING: Final = r"^tt\.(load|descriptor_load|descriptor_gather|call)$|async_copy|async_tma"
_ATOMIC_WAITS: Final = ("long_scoreboard", "lg_throttle", "mio_throttle", "drain")
_VECTORS: Final = "vector accesses: a base and a stride or mask that are known to be multiples of 16"
# Of PTX: where an instruction is, and accesses of one or two bytes.
_PLACE: Final = re.compile(r"\.loc\s+\d+\s+(\d+)\s+\d+(?:,.*inlined_at\s+\d+\s+(\d+))?")
_NARROW: Final = re.compile(r"(?:@!?%p\d+\s+)?(ld|st)\.global\.(?:\w+\.)*?(?:b|u|s)(8|16)\b")
_ACCESSES: Final = {"ld": "tt.load", "st": "tt.store"}


# Sectors that no byte needs.


def _excess(kernel: Kernel) -> Iterator[Where]:
    """Lanes apart from each other touch a sector each: the excess, in bytes a thread, is more than a
    vector's. A thread that takes apart a vector of its own touches the same sectors again and again: at most
    that much. Without it no access touches more than it needs; the line with most of the excess is first."""
    table = kernel.table
    sectors, ideal = table.amount("sectors"), table.amount("sectors_ideal")
    excess = (sectors - ideal).clip(min=0)
    found = [
        (float(excess[rows].sum()), kind, place, rows)
        for kind, ops in (("load", LOAD_OPS), ("store", STORE_OPS))
        for place, rows in _by_place(kernel, table.of(*ops) & (sectors > 0))
        if _is_apart(kernel, kind, place, rows)
    ]
    every = np.logical_or.reduce([rows for *_, rows in found]) if found else ~table.all
    if excess[every].sum() < thresholds.MUCH * max(1.0, excess[table.of(*LOAD_OPS, *STORE_OPS)].sum()):
        return  # lanes go where their data says
    for lost, kind, place, rows in _worst_first(found):
        is_vector = _is_torn_vector(kernel, place, rows)
        touched, needed = float(sectors[rows].sum()), max(1.0, float(ideal[rows].sum()))
        waits = table.waits(table.at_lines(place[0], {place[1]}), *QUEUES)
        yield Where(
            place, _ideal_sectors(kernel, every, waits * (1 - needed / touched)),
            {
                "ratio": Quantity(touched / needed, "times"), "touched": Quantity(touched, "sectors"),
                "needed": Quantity(needed, "sectors"), "waiting": of_samples(waits),
                "excess": Quantity(100 * lost / max(1.0, float(sectors.sum())), "% of all sectors"),
            },
            name="unvectorized-access" if is_vector else f"uncoalesced-{kind}",
            advice=_VECTORS if is_vector else "",
        )  # fmt: skip


def _by_place(kernel: Kernel, rows: Mask) -> Iterator[tuple[Place, Mask]]:
    """The rows of each line."""
    table = kernel.table
    for file, line in table.by_place(np.ones(len(table)), rows):
        yield (file, line), rows & table.at_lines(file, {line})


def _is_apart(kernel: Kernel, kind: str, place: Place, rows: Mask) -> bool:
    """Whether accesses at a line touch far more sectors than their bytes need, and lanes do not go where
    their data says."""
    table = kernel.table
    ratio = table.total("sectors", rows) / max(1.0, table.total("sectors_ideal", rows))
    if kernel.emulated:  # a thread may take what it has side by side apart, as caches have it
        ratio /= max(1.0, kernel.run_bytes(place[1]) / float(table.amount("bytes")[rows].min()))
    if ratio < thresholds.EXCESS:
        return False
    accesses = kernel.accesses_at(place[1])
    own = [node for node in accesses if (node.name == "tt.store") is (kind == "store")]
    of_many = [node for node in own if size_of(node.operands[0].type) > 1]
    return not of_many or not all(scattered_over(kernel.graph, node) for node in of_many)


def scattered_over(graph: Graph, access: Node) -> frozenset[int]:
    """The positions of the kernel's arguments whose addresses follow only from each lane's data, not from a
    position in the tile or a step of a loop; else none."""
    rests = graph.positions(access.operands[0])
    if not rests.of_lane_data or rests.by_lane or rests.varies_in:
        return frozenset()
    return rests.arguments or frozenset()


def _is_torn_vector(kernel: Kernel, place: Place, rows: Mask) -> bool:
    table = kernel.table
    sectors, ideal, executed = (table.total(name, rows) for name in ("sectors", "sectors_ideal", "executed"))
    width, run = int(table.amount("bytes")[rows].min()), kernel.run_bytes(place[1])
    # Each instruction may touch one sector more, as a run starts within a sector.
    is_vector = (sectors - executed) * width <= thresholds.VECTOR_BYTES * ideal
    return is_vector and (sectors - ideal <= executed or not run or run > width)


def _worst_first(found: list[tuple[float, str, Place, Mask]]) -> list[tuple[float, str, Place, Mask]]:
    """Places that promise the same together: that with most of the excess is first, and one with next to
    nothing of it is left out."""
    least = thresholds.NOISE_PCT / 100 * max((share for share, *_ in found), default=0.0)
    return sorted((each for each in found if each[0] >= least), key=lambda each: -each[0])


def _ideal_sectors(kernel: Kernel, rows: Mask, waits: float) -> Edit:
    """Without the excess of these rows, for which so much of the time waits. If a resource binds the kernel
    and moves the excess, all that wait for memory wait for it; if it moves none, nobody does. If none binds,
    no more than the excess keeps memory busy, nor than the waits at this line: the rest is latency, which
    ideal accesses have too. But full queues are no latency: then all that wait for memory wait for it. Copies
    write as narrowly to shared memory."""
    table = kernel.table
    edit = Edit(
        waits, sectors=table.idealised("sectors", rows),
        wavefronts=table.idealised("wavefronts", rows & table.of("LDGSTS")),
    )  # fmt: skip
    kept = kernel.resources.kept(edit)
    held = kernel.resources.held_by_traffic(kept)
    if held is None and kernel.used:
        moves = ("l1", "lsu", "l2", "dram", "shared")
        held = min(waits, max(kernel.used.get(name, 0.0) * (1 - kept[name]) for name in moves))
    return edit if held is None else replace(edit, removed=held)


# Few bytes at a time.


def _narrow(kernel: Kernel) -> Iterator[Where]:
    """Neighbouring lanes access neighbouring elements, but each in many instructions of few bytes. Without it
    a thread accesses 16 bytes at once: nobody waits for the queue of instructions, and L2 looks up lines of
    four sectors rather than sectors (NVIDIA, Nsight Compute: memory tables)."""
    table = kernel.table
    found = [
        (place, rows)
        for ops in (LOAD_OPS, STORE_OPS)
        for place, rows in _by_place(kernel, table.of(*ops))
        if (size := float(table.amount("bytes")[rows].max())) < 4
        and table.total("instructions", rows) * size >= thresholds.VECTOR_BYTES
        and table.total("sectors", rows) <= size * max(1.0, table.total("executed", rows))
    ]
    part = sum(table.share("sectors", rows) for _, rows in found)
    kept = dict.fromkeys(("l1", "lsu", "l2"), 1 - part * (1 - 1 / thresholds.LINE_SECTORS))
    held = kernel.resources.held_by_traffic(kept, part) or 0.0
    for place, rows in found:
        waits = table.waits(table.at_lines(place[0], {place[1]}), *LSU_QUEUES)
        yield Where(
            place, Edit(max(waits, held), kept=kept),
            {
                "accesses": Quantity(table.total("instructions", rows), "instructions"),
                "width": Quantity(float(table.amount("bytes")[rows].max()), "bytes"),
                "waiting": of_samples(waits),
            },
        )  # fmt: skip


def _narrow_by_ptx(kernel: Kernel) -> Iterator[Where]:
    """A thread has 16 bytes or more at a line, in pieces of one or two. Addresses that were loaded or divided
    may be anywhere, so that no vector has them."""
    for (line, kind, size), pieces in _narrow_accesses(kernel.ptx).items():
        nodes = [node for node in kernel.accesses_at(line) if node.name == _ACCESSES[kind]]
        rests = [kernel.graph.depends(node.operands[0]) for node in nodes]
        if not nodes or any(each.loads or each.has_division for each in rests):
            continue
        each = pieces // len(nodes)
        if each * size >= thresholds.VECTOR_BYTES:
            cites = {"accesses": Quantity(each, "instructions"), "width": Quantity(size, "bytes")}
            yield Where(kernel.line(line), None, cites)


def _narrow_accesses(ptx: str) -> dict[tuple[int, str, int], int]:
    """By line, kind and bytes of accesses to global memory of one or two bytes, how many there are."""
    found: Counter[tuple[int, str, int]] = Counter()
    line = 0
    for text in map(str.strip, ptx.splitlines()):
        if place := _PLACE.match(text):
            line = int(place[2] or place[1])
        elif access := _NARROW.match(text):
            found[line, access[1], int(access[2]) // 8] += 1
    return found


# Shared memory.


def _conflicts(kernel: Kernel) -> Iterator[Where]:
    """Without it each access to shared memory takes its ideal wavefronts, as a layout is that of stores and
    loads. Reductions exchange as they must."""
    table = kernel.table
    waves, ideal = table.amount("wavefronts"), table.amount("wavefronts_ideal")
    every = table.of(*SHARED_OPS) & (waves > 0)
    all_waves = max(1.0, float(waves[every].sum()))
    reduces = kernel.graph.lines(r"^tt\.reduce$")
    waits = table.stalled(*_SHARED_WAITS, by=("shared load", "shared store", "matrix load"))
    found = [
        (float((waves - ideal)[rows].sum()) / all_waves, "", place, rows)
        for place, rows in _by_place(kernel, every)
        if waves[rows].sum() >= thresholds.EXCESS * max(1.0, float(ideal[rows].sum()))
        and place[1] not in reduces
    ]
    own = every & table.located
    removed = float((waves - ideal)[own].clip(min=0).sum()) / all_waves * waits
    if kernel.used.get("shared", 0.0) >= thresholds.BOUND:
        removed = kernel.used["shared"]
    edit = Edit(removed, wavefronts=table.idealised("wavefronts", own))
    for _, _, place, rows in _worst_first(found):
        taken, needed = float(waves[rows].sum()), max(1.0, float(ideal[rows].sum()))
        yield Where(
            place, edit,
            {
                "ratio": Quantity(taken / needed, "times"), "taken": Quantity(taken, "wavefronts"),
                "needed": Quantity(needed, "wavefronts"), "waiting": of_samples(waits),
            },
        )  # fmt: skip


# Registers that do not suffice, and atomics.


def _spills(kernel: Kernel) -> Iterator[Where]:
    """Without it loads and stores of local memory, and waiting for them, are gone, and if their traffic binds
    the kernel, waiting for other traffic, too. The line is that of the largest tensor that a loop carries, if
    there is one."""
    table = kernel.table
    local = table.of("LDL", "STL")
    share = table.share("executed", local)
    if not kernel.spills or not share:
        return
    held = _carried_line(kernel)
    waits = table.stalled("long_scoreboard", "lg_throttle", by=("local load", "local store"))
    moved = SECTOR_BYTES * table.sectors(*LOAD_OPS, *STORE_OPS)
    kept = dict.fromkeys(("l1", "l2", "lsu"), moved / max(1.0, moved + table.local_bytes))
    removed = max(share, table.waits(local), kernel.resources.held_by_traffic(kept) or 0.0)
    yield Where(
        kernel.line(held) if held else table.place_sampled(local) or kernel.place, Edit(removed, kept=kept),
        {
            "spilled": Quantity(kernel.spills, "registers"), "moving": of_instructions(share),
            "waiting": of_samples(waits),
        },
    )  # fmt: skip


def _spills_by_compiler(kernel: Kernel) -> Iterator[Where]:
    if kernel.spills:
        spilled = Quantity(kernel.spills, "registers")
        yield Where(kernel.line(_carried_line(kernel)), None, {"spilled": spilled})


def _carried_line(kernel: Kernel) -> int:
    """The line of the largest tensor that a loop carries in registers: of the product that adds to it, else
    of what it becomes in a step; 0 if there is none."""
    graph = kernel.graph
    carried = [
        (size_of(value.type), value, loop)
        for loop in graph.named(r"^scf\.for$")
        for value in graph.arguments(loop)[1:]
        if size_of(value.type)
    ]
    if not carried:
        return 0
    _, value, loop = max(carried, key=lambda each: each[0])
    made = [each.maker for each in value.sources if each.maker is not None and each.maker.is_in(loop)]
    return next((node.line for node in made if node.line), loop.line)


def _atomics(kernel: Kernel) -> Iterator[Where]:
    """Without it nobody waits at the lines of atomics for them, their queue or other warps, nor for the
    fences around them, and L2 has less to do: an atomic reads its sector and writes it. If each lane adds
    where its data says, and the tensor has more sectors than a program has lanes, few of them add to the same
    element, and there is no cause."""
    table = kernel.table
    rows = table.of(*ATOMIC_OPS) & (table.amount("sectors") > 0)
    waits = table.stalled(*_ATOMIC_WAITS, by=("atomic",)) + table.stalled("membar")
    if not waits or not rows.any() or _are_scattered(kernel, rows):
        return
    if kernel.emulated and table.total("executed", rows) <= kernel.grid * kernel.warps:
        return  # one for each program: launches of few CTAs have little else to do
    here = np.isin(table.line, list(set(table.line[rows].tolist())))
    held = table.waits(here, *_ATOMIC_WAITS, "short_scoreboard", "barrier") + table.stalled("membar")
    kept = {"l2": 1 - 2 * SECTOR_BYTES * table.sectors(*ATOMIC_OPS) / kernel.resources.l2_bytes}
    edit = Edit(max(held, kernel.resources.held_by_traffic(kept) or 0.0), kept=kept)
    place = table.place_executed(rows) or kernel.place
    yield Where(place, edit, {"waiting": of_samples(max(waits, held))})


def _are_scattered(kernel: Kernel, rows: Mask) -> bool:
    """Whether lanes add to elements of their own, as far as the size of the tensor tells."""
    table, lines = kernel.table, set(kernel.table.line[rows].tolist())
    nodes = [node for node in kernel.graph.named(r"^tt\.atomic_") if node.line in lines]

    def has_room(node: Node) -> bool:
        tensors = scattered_over(kernel.graph, node)
        room = sum(kernel.tensor_bytes.get(at, 0) for at in tensors)
        return room > SECTOR_BYTES * size_of(node.operands[0].type) or (kernel.emulated and bool(tensors))

    apart = table.sectors(*ATOMIC_OPS) > WARP_LANES / 2 * table.total("executed", rows)
    return bool(nodes) and all(map(has_room, nodes)) and apart


# Loads that come late.


def _exposed(name: str, kernel: Kernel) -> Iterator[Where]:
    """Without it nobody waits for these loads, while memory moves the same bytes. Loads for a product have
    stages, so they are another rule's."""
    table, graph = kernel.table, kernel.graph
    few = kernel.stages <= thresholds.IN_FLIGHT / 2
    rows = table.of_class(*(LOADED if few else LOADED[:1]))  # copies some steps ahead are early enough
    place = table.place_waited_for(rows, "long_scoreboard") or kernel.place
    waits = table.waits(rows, "long_scoreboard")
    if waits < thresholds.MUCH or place[1] not in graph.lines(_LOADING, loop=True):
        return  # no load is earlier than one outside of loops
    if kernel.waits_basis == "experiments" and (
        waits < 2 * thresholds.MUCH or kernel.used.get("dram", 0.0) >= thresholds.BOUND
    ):
        return  # a launch without its loads also saves the time of their bytes
    has_stages = graph.named(r"dot|mma", loop=True)
    if name == ("few-stages" if has_stages else "exposed-latency"):
        cites: dict[str, Quantity | str] = {"waiting": of_samples(waits), "busy": " in a loop"}
        if "l2" in kernel.used:
            memory = of_peak(max(kernel.used.get("dram", 0.0), kernel.used["l2"]))
            cites |= {"memory": memory, "busy": f", while memory is at {memory}"}
        yield Where(place, Edit(kernel.resources.hidden(waits)), cites)


_SEEN: Final = frozenset({"counts", "waits"})
_FEWER_REGISTERS: Final = "more warps, smaller tiles, or a larger maxnreg"
_LATE: Final = "{waiting} wait for loads (`long_scoreboard`){busy}"
RULES: Final = (
    Rule(
        "uncoalesced-load", _SEEN, _excess,
        "{ratio} the sectors that its bytes need: {touched} of 32 bytes instead of {needed}; the excess is "
        "{excess}; {waiting} wait for memory or its queues here",
        "neighbouring lanes to neighbouring elements: swap axes, pack fields, or go through shared memory",
        "high",
    ),
    Rule(
        "unvectorized-access", _SEEN | {"use"}, _narrow,
        "{accesses} of {width} a thread; {waiting} wait for the queue that takes them",
        "16 bytes a thread: a layout or a block in which each thread has neighbouring elements",
    ),
    Rule(
        "unvectorized-access", frozenset(), _narrow_by_ptx, "{accesses} of {width} a thread" + BY_BINARY,
        "16 bytes a thread: a base, a stride and a mask that are known to be multiples of 16", "low",
        unless=_SEEN | {"use"},
    ),
    Rule(
        "bank-conflict", _SEEN, _conflicts,
        "{ratio} the wavefronts that its bytes need: {taken} instead of {needed}; {waiting} wait for shared "
        "memory",
        "a swizzled or padded layout", "high",
    ),
    Rule(
        "register-spills", _SEEN, _spills,
        "{spilled} spill; {moving} move them, and {waiting} wait for them",
        _FEWER_REGISTERS, "high",
    ),
    Rule(
        "register-spills", frozenset(), _spills_by_compiler, "{spilled} spill" + BY_BINARY,
        _FEWER_REGISTERS, "low", unless=_SEEN,
    ),
    Rule(
        "atomics", _SEEN, _atomics,
        "{waiting} wait for atomics, the fences around them, or for warps that do",
        "add up in registers or shared memory first, then one atomic a CTA; or spread the addresses",
    ),
    Rule(
        "exposed-latency", frozenset({"waits", "ttgir"}), partial(_exposed, "exposed-latency"),
        _LATE, "load earlier, several at once, or keep more warps on an SM",
    ),
    Rule(
        "few-stages", frozenset({"waits", "ttgir"}), partial(_exposed, "few-stages"), _LATE,
        "more stages (num_stages of 3 or 4)",
    ),
)  # fmt: skip
