"""masked-work: results that are computed and never used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Quantity, of_samples
from profscope.analysis.evidence_table import MMA_OPS, WARP_LANES, Mask
from profscope.analysis.resources import RESULTS, Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import FROM_GLOBAL, Kernel, is_dot, is_load
from profscope.analysis.rules.rule import Rule, Where
from profscope.instrument_passes.analyses.graph import LOOPS, Graph, Node, Value, size_of

__all__ = ["RULES", "discarded_results", "masked_loop"]

_MEMORY_WAITS: Final = ("long_scoreboard", "lg_throttle", "drain")
_EQUAL: Final = re.compile(r"arith\.cmpi (eq|ne),")
_PASSES_MASKS: Final = re.compile(r"arith\.(and|or)i$|broadcast$|expand_dims$|convert_layout$")
_STORES: Final = ("tt.store", "tt.atomic_rmw")


# Tiles that a mask throws away.


def masked_loop(graph: Graph) -> int | None:
    """The line of the first choice in a loop whose mask discards tiles, else of the loop. Such a mask
    compares the loop's positions with the program's, and all programs take the same steps."""
    for loop in graph.named(r"^scf\.for$"):
        if graph.depends(*loop.operands[:2]).axes:
            continue
        inside = graph.inside(loop)
        if any(_is_by_position(graph, node, loop) and _discards(graph, node) for node in inside):
            choices = (node.line for node in inside if _is_choice(node))
            return next(choices, loop.line)
    return None


def _is_by_position(graph: Graph, mask: Node, loop: Node) -> bool:
    """Whether it compares, for more or less, a position that the loop's counter moves with one of the
    program's, or their difference with a constant."""
    if mask.name != "arith.cmpi" or _EQUAL.search(mask.text):
        return False
    difference = next((each.maker for each in mask.operands if _is_made_by(each, "arith.subi")), None)
    sides = difference.operands if difference is not None and _is_mixed(graph, mask, loop) else mask.operands
    counted = [loop in graph.positions(each).counters for each in sides]
    return any(
        counted[at] and not counted[1 - at] and graph.depends(sides[1 - at]).axes
        and not graph.positions(sides[at]).axes
        for at in (0, 1)
    )  # fmt: skip


def _is_mixed(graph: Graph, mask: Node, loop: Node) -> bool:
    sides = map(graph.positions, mask.operands)
    return any(loop in each.counters and each.axes for each in sides)


def _discards(graph: Graph, mask: Node) -> bool:
    """Whether something is replaced by a constant, or neither stored nor loaded, where a mask says so: of
    loads that rest on data, the lanes are counted."""
    users = graph.forward(mask, lambda node: _PASSES_MASKS.search(node.name) is not None)
    return any(
        node.name in _STORES
        or (node.name in FROM_GLOBAL and not graph.depends(*mask.operands).of_data)
        or (_is_choice(node) and sum(_is_made_by(each, "arith.constant") for each in node.operands[1:3]) == 1)
        for node in users
    )


def _is_choice(node: Node) -> bool:
    """Whether it chooses element by element."""
    return node.name == "arith.select" and size_of(node.operands[0].type) > 0


def _is_made_by(value: Value, name: str) -> bool:
    return value.maker is not None and value.maker.name == name


def _tiles(kernel: Kernel) -> Iterator[Where]:
    """Without it a loop ends where a mask throws all of its tiles away: half of them, for a triangle. But one
    program keeps all of its tiles: an SM with no other one takes as long as before. (Launches on the emulator
    are small.)"""
    line = masked_loop(kernel.graph)
    if line is None:
        return
    longest = min(1.0, kernel.sms / kernel.grid) if kernel.sms and not kernel.emulated else 0.0
    half = thresholds.TRIANGLE
    cites = {"half": Quantity(100 * half, "% of the tiles")}
    yield Where(kernel.line(line), _less_work(kernel, min(half, 1 - longest)), cites)


# Results that a condition replaces.


def _discarded(kernel: Kernel) -> Iterator[Where]:
    """Without it nothing is computed where the condition says so. For how many is unknown: half are expected,
    as of a triangle."""
    table = kernel.table
    for choice, computing in discarded_results(kernel.graph):
        inside = kernel.graph.nodes if computing is None else kernel.graph.inside(computing)
        rows = kernel.at({node.line for node in inside} - {0})
        share = table.waits(rows)
        if share >= thresholds.MUCH:
            is_behind = computing is not None and not choice.is_in(computing)
            place = (table.place_waited_for(rows) if is_behind else None) or kernel.line(choice.line)
            edit = _less_work(kernel, thresholds.TRIANGLE * share)
            yield Where(place, edit, {"computing": of_samples(share)})


def discarded_results(graph: Graph) -> Iterator[tuple[Node, Node | None]]:
    """Choices, by loaded data, between the results of a loop or product and values without a part in them;
    and the loop that computes the results, None if no loop does. A product is discarded as a whole, by one
    number."""
    for choice in graph.named(r"^arith\.select$"):
        condition, *either = choice.operands[:3]
        made = graph.backward([condition])
        if not any(map(is_load, made)) or any(_is_costly(each, choice) for each in made):
            continue
        costly = [[n for n in graph.backward([each]) if _is_costly(n, choice)] for each in either]
        if all(costly) or not any(costly):
            continue
        found = (costly[0] or costly[1])[0]
        if found.name in LOOPS:
            yield choice, found
        elif _is_made_by(condition, "tt.splat"):
            yield choice, choice.loop


def _is_costly(node: Node, choice: Node) -> bool:
    return is_dot(node) or (node.name in LOOPS and node not in choice.around)


def _less_work(kernel: Kernel, part: float) -> Edit:
    """Without a part of all work."""
    return Edit(part, without(kernel.table.all, part), kept=dict.fromkeys(kernel.used, 1 - part))


# Lanes that are masked off.


def _lanes(kernel: Kernel) -> Iterator[Where]:
    """Without it no lane of loads is masked off, nor computes for nobody; as it moves no bytes, waits for
    memory stay, and those for results if a warp has its scheduler for itself. The line is that of a product
    in a loop, or if loads are in front of the loop of most instructions, of its most: masked lanes compute
    there as well."""
    table = kernel.table
    loads = table.of("LDG") & (table.amount("sectors") > 0)
    wide = _lines_of_all_lanes(kernel)
    loads &= kernel.at(wide) if wide else table.all
    masked = _masked(kernel, loads)
    is_alone = 0 < kernel.resources.resident_warps <= thresholds.SCHEDULERS
    waits = table.stalled(*_MEMORY_WAITS, *(RESULTS if is_alone else ()))
    lost = WARP_LANES * table.amount("executed") - table.amount("threads")
    in_loops = kernel.at(kernel.lines_in_loops)
    is_behind = table.share("executed", in_loops) > 1 / 2 and not (in_loops & loads).any()
    works = in_loops & (table.all if is_behind else table.of(*MMA_OPS))
    if masked > 0 and loads.any():
        place = table.place_executed(works) or table.place_of_most(lost, loads) or kernel.place
        cites = {"masked": Quantity(100 * masked, "% of the lanes")}
        yield Where(place, _used_lanes(kernel, masked, masked * (1 - waits)), cites)


def _lines_of_all_lanes(kernel: Kernel) -> set[int]:
    """The lines that load an element or more of each lane of a CTA: of fewer, all lanes load the same."""
    loads = (node for node in kernel.graph.nodes if node.name in FROM_GLOBAL and node.operands)
    return {node.line for node in loads if size_of(node.operands[0].type) >= kernel.threads}


def _masked(kernel: Kernel, loads: Mask) -> float:
    """The part of the lanes that are masked off in loads: in loops, and outside of them, by how many
    instructions are there. A part that loads nothing has what the other one loads."""
    table, inside, masked = kernel.table, kernel.at(kernel.lines_in_loops), 0.0
    for part in (inside, ~inside):
        rows = loads & part if (loads & part).any() else loads
        lanes = WARP_LANES * table.total("executed", rows)
        masked += table.share("executed", part) * (1 - table.total("threads", rows) / max(1.0, lanes))
    return masked


def _copies(kernel: Kernel) -> Iterator[Where]:
    """Copies of a tile touch fewer sectors for their bytes than those of the loop's operand that touches
    most: a pipelined loop masks both in its last steps. Without it all that the step does for masked lanes is
    gone. A vector has fewer elements than the CTA has lanes, of which the compiler then masks the others
    off."""
    table = kernel.table
    loops: dict[Node, set[int]] = {}
    for node in kernel.graph.named(r"^ttg\.async_copy_global_to_local$", loop=True):
        if re.match(r"tensor<\d+x\d+x!tt\.ptr", node.operands[0].type):
            loops.setdefault(node.loops[0], set()).add(node.line)
    for lines in loops.values():
        rows = kernel.at(lines) & table.of("LDGSTS")
        whole = table.by_place(table.amount("executed") * table.amount("bytes"), rows)
        ideal = table.by_place(table.amount("sectors_ideal"), rows)
        moved = {place: ideal[place] / max(1.0, whole[place]) for place in whole}
        if moved and max(moved.values()) > 0:
            place = min(moved, key=lambda each: moved[each])
            part = 1 - moved[place] / max(moved.values())
            cites = {"masked": Quantity(100 * part, "% of copies")}
            yield Where(place, _used_lanes(kernel, part, part), cites)


def _used_lanes(kernel: Kernel, part: float, removed: float) -> Edit:
    """Without a part of all but what memory moves."""
    kept = dict.fromkeys(("tensor", "l1", "shared", "lsu"), 1 - part)
    return Edit(removed, without(kernel.table.all, part), kept=kept)


_BLOCK: Final = (
    "a block that fits the row: the next smaller power of two and a loop, or several rows a program; end "
    "the loop of a tile without rows"
)
RULES: Final = (
    Rule(
        "masked-work", frozenset({"ttgir"}), _tiles,
        "all programs take the same steps, and a mask compares positions in each: {half} are expected to be "
        "thrown away, as of a triangle; how many are is not measured",
        "begin and end the loop where the mask does, and mask only the tiles that it crosses",
    ),
    Rule(
        "masked-work", frozenset({"waits", "ttgir"}), _discarded,
        "{computing} compute what a condition then throws away, though it is known before; how often is not "
        "measured",
        "leave it out if a whole program or step is not asked for; list what is, and launch programs or take "
        "steps for that",
    ),
    Rule(
        "masked-work", frozenset({"counts", "waits"}), _lanes,
        "{masked} work for loads that are masked off", _BLOCK,
    ),
    Rule(
        "masked-work", frozenset({"counts", "ttgir"}), _copies,
        "{masked} of an operand are masked off", _BLOCK,
    ),
)  # fmt: skip
