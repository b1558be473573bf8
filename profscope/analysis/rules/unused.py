"""masked-work: what is computed and whose result nobody uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Quantity, of_samples
from profscope.analysis.evidence_table import LANES, LOADS, MMA, Mask, Place
from profscope.analysis.resources import Edit
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.dataflow import is_dot, is_load
from profscope.analysis.rules.kernel import DOTS, FROM_GLOBAL, Kernel
from profscope.analysis.rules.launch import RESULTS
from profscope.analysis.rules.rule import Rule, Where
from profscope.instrument_passes.analyses.graph import LOOPS, Graph, Node, Value, element_bytes, size_of

__all__ = ["RULES", "discarded_loops", "discarded_products", "masked_loop"]

_MEET: Final = rf"{DOTS}|tt\.(reduce|scan|gather|atomic_)"  # a lane's result is not its own
_MEMORY_WAITS: Final = ("long_scoreboard", "lg_throttle", "drain")
_EQUAL: Final = re.compile(r"arith\.cmpi (eq|ne),")
_LESS: Final = re.compile(r"cmpi [su](l|g)[te],")
_PASSES_MASKS: Final = re.compile(r"arith\.(and|or)i$|broadcast$|expand_dims$|convert_layout$")
_NUMBERS: Final = ("arith.uitofp", "arith.extui")  # of a mask: what it multiplies is thrown away
_ZERO: Final = re.compile(r"dense<-?0[.0e+]*>")
_STORES: Final = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas")


# Tiles that a mask throws away.


def masked_loop(graph: Graph) -> tuple[int, bool] | None:
    """The line of the first mask that throws tiles of a loop away, else of its loop, and whether it compares
    with what was loaded.

    It compares the loop's positions with the program's, and the end of the loop that it cuts off depends
    neither on the program nor on a loop around it. The program's may be loaded if they are a bound, or choose
    what products are for: those of another step may be left out. If such a mask is one of loads, too, it is
    another matter: lanes of loads are counted."""
    for mask, line, by_data, is_either_end in _cuts(graph):
        users = list(_users(graph, mask))
        of_loads = any(user.name in FROM_GLOBAL for user, _ in users)
        if not _throws_away(mask, users) or (by_data and of_loads):
            continue
        if is_either_end or _keeps_where_true(users):
            return line, by_data
    return None


def _cuts(graph: Graph) -> Iterator[tuple[Node, int, bool, bool]]:
    """The masks that cut an end of a loop off which is the same for all programs; the line that is named;
    whether by what was loaded; whether it does not matter which end, as both are the same for all."""
    for loop in graph.named(r"^scf\.for$"):
        bounds = zip(("lower", "upper"), loop.operands[:2], strict=False)
        ends = {end for end, value in bounds if not _differs(graph, value)}
        if not ends:
            continue
        inside = graph.inside(loop)
        has_dot = any(is_dot(node) for node in inside)
        chosen = [
            node.line for node in inside if node.name == "arith.select" and size_of(node.operands[0].type)
        ]
        for node in inside:
            if node.name != "arith.cmpi":
                continue
            cut = _cut_off(graph, node, loop, with_data=has_dot or not _EQUAL.search(node.text))
            if cut and (len(ends) > 1 or cut == ends):
                by_data = not _cut_off(graph, node, loop, with_data=False)
                yield node, (chosen or [loop.line])[0], by_data, len(ends) > 1


def _differs(graph: Graph, bound: Value) -> bool:
    rests = graph.depends(bound)
    return bool(rests.axes or rests.counters)


def _cut_off(
    graph: Graph, compared: Node, loop: Node, *, with_data: bool, less: bool | None = None
) -> set[str]:
    """Which ends of a loop a comparison cuts off: "lower", "upper", or both, if one side depends on the
    loop's counter, and the other one on the program alone; with_data: or on what the program has loaded. Of a
    difference that is compared with a constant, the sides are those of the difference."""
    if compared.name == "arith.cmpi":
        found = _LESS.search(compared.text)
        less = None if found is None else found[1] == "l"
    sides = [_side(graph, value, loop, with_data) for value in compared.operands[:2]]
    for at, (is_counted, is_of_program) in enumerate(sides):
        made = compared.operands[at].maker
        if is_counted and is_of_program:
            if made is None or made.name != "arith.subi":
                return set()
            return _cut_off(
                graph, made, loop, with_data=with_data, less=less if at == 0 or less is None else not less
            )
    first, second = sides
    is_first = first[0] and second[1]
    if not is_first and not (first[1] and second[0]):
        return set()
    if less is None:
        return {"lower", "upper"}
    return {"upper" if less is is_first else "lower"}


def _side(graph: Graph, value: Value, loop: Node, with_data: bool) -> tuple[bool, bool]:
    """Whether a value is a position that the counter of a loop moves, and whether it depends on the
    program."""
    position = graph.positions(value)
    is_counted = loop in position.counters
    is_of_program = bool(position.axes) or (with_data and not is_counted and bool(graph.depends(value).axes))
    return is_counted, is_of_program


def _users(graph: Graph, mask: Node) -> Iterator[tuple[Node, set[Node]]]:
    """The ops that use a mask, alone or with others, in any shape, and the ops that make it so."""
    passing = list(graph.forward(mask, lambda node: _PASSES_MASKS.search(node.name) is not None))
    made = {mask, *(node for node in passing if _PASSES_MASKS.search(node.name))}
    yield from ((node, made) for node in passing if node not in made)


def _chooses_by(user: Node, made: set[Node]) -> bool:
    return user.name == "arith.select" and user.operands[0].maker in made


def _throws_away(mask: Node, users: list[tuple[Node, set[Node]]]) -> bool:
    """Whether anything is not used where a mask of positions is false: for one of unequal positions, where it
    is true, as it is false at a few only."""
    equal = _EQUAL.search(mask.text)
    sides = {side for user, made in users for side in _thrown_away_by(user, made)}
    return bool(sides) if equal is None else (equal[1] == "ne") in sides


def _thrown_away_by(user: Node, made: set[Node]) -> set[bool]:
    """Where something is thrown away: where a mask is true, where it is false, or nowhere."""
    if user.name in (*_STORES[:2], *FROM_GLOBAL) or (
        user.name in _NUMBERS and user.operands[0].maker in made
    ):
        return {False}
    if not _chooses_by(user, made):
        return set()
    for is_nothing in (_is_constant, _is_zero, _is_carried):
        true, false = (is_nothing(value) for value in user.operands[1:3])
        if true != false:
            return {true}
    return set()


def _is_constant(value: Value) -> bool:
    return value.maker is not None and value.maker.name == "arith.constant"


def _is_zero(value: Value) -> bool:
    return value.maker is not None and _is_constant(value) and _ZERO.search(value.maker.text) is not None


def _is_carried(value: Value) -> bool:
    """Whether a value is what the step before has left."""
    return value.maker is None


def _keeps_where_true(users: list[tuple[Node, set[Node]]]) -> bool:
    """Whether a mask chooses what goes on, and never what is thrown away."""
    is_used = False
    for user, made in users:
        if _chooses_by(user, made):
            is_used = True
            if _is_constant(user.operands[1]):
                return False
        elif user.name not in ("tt.load", "tt.descriptor_load"):
            return False
    return is_used


def _tiles(kernel: Kernel) -> Iterator[Where]:
    """Without it a loop ends where a mask throws all of its tiles away: half of them, for a triangle. But one
    program keeps all of its tiles: an SM with no other one takes as long as before. (Launches on the emulator
    are small.)"""
    found = masked_loop(kernel.graph)
    if found is None:
        return
    line, by_data = found
    longest = min(1.0, kernel.sms / kernel.grid) if kernel.sms and not kernel.emulated else 0.0
    said = "all programs take the same steps, and a mask compares positions in each"
    if by_data:
        said += " with what was loaded: {half} are expected to be thrown away, which is not measured"
    else:
        said += ": of a triangle {half} are thrown away"
    half = thresholds.TRIANGLE
    yield Where(
        kernel.line(line), kernel.table.all,
        cites={"half": Quantity(100 * half, "% of the tiles")},
        amounts={"part": min(half, 1 - longest)},
        text=said,
        advice="begin and end the loop where the mask does, and mask only the tiles that it crosses",
    )  # fmt: skip


# Results that a condition replaces.


def _discarded(kernel: Kernel) -> Iterator[Where]:
    """A loop's results are thrown away by what was loaded before it, or a product by a number that was
    loaded. Without it neither is computed for these. For how many is unknown: half are expected, as of a
    triangle."""
    told = set()
    for computed, line, what, condition in _discarded_parts(kernel.graph):
        rows = kernel.at(computed)
        share = kernel.table.waits(rows)
        place = kernel.line(line) if line else kernel.table.place_waited_for(rows) or kernel.place
        if share < thresholds.MUCH or place in told:
            continue  # a kernel of which some CTAs are recorded has each loop twice
        told.add(place)
        yield Where(
            place, kernel.table.all,
            cites={"computing": of_samples(share), "where": what, "condition": condition},
            amounts={"part": thresholds.TRIANGLE * share},
            text="{computing} are in {where}, and {condition} throws its results away, though it is known "
            "before; how often is not measured",
            advice="leave it out if a whole program or step is not asked for; list what is, and launch "
            "programs or take steps for that",
        )  # fmt: skip


def _discarded_parts(graph: Graph) -> Iterator[tuple[set[int], int, str, str]]:
    """The lines that compute what is thrown away, the line that is named (0: where most samples are), and in
    words, what computes and what decides."""
    for loop, condition in discarded_loops(graph):
        yield (
            {node.line for node in graph.inside(loop)} - {0},
            0,
            "a loop",
            f"the condition at line {condition.line}",
        )
    seen = set()
    for choice in discarded_products(graph):
        if choice.loop in seen:
            continue  # by another choice
        seen.add(choice.loop)
        inside = graph.nodes if choice.loop is None else graph.inside(choice.loop)
        where = "a kernel with a dot" if choice.loop is None else "a loop with a dot"
        yield {node.line for node in inside} - {0}, choice.line, where, "a number that was loaded"


def discarded_loops(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Loops, and the condition by which a kernel stores something else than what they have computed: it was
    loaded, and no loop has a part in it."""
    stores = graph.named(r"^tt\.store$")
    for loop in graph.named(r"^scf\.(for|while)$"):
        if loop.loops or any(node.name in _STORES for node in graph.inside(loop)):
            continue
        of_loop = [store for store in stores if _is_made_by(graph, store.operands[1], loop)]
        conditions = [_condition(graph, store, loop) for store in of_loop]
        known = [each for each in conditions if each is not None]
        if known and len(known) == len(conditions):
            yield loop, known[0]


def _is_made_by(graph: Graph, value: Value, loop: Node) -> bool:
    return loop in graph.backward([value], _is_straight)


def _is_straight(node: Node) -> bool:
    """Whether an op's results come from its operands alone: neither a loop nor a branch."""
    return node.name not in (*LOOPS, "scf.if")


def _condition(graph: Graph, store: Node, loop: Node) -> Node | None:
    """The op that makes the condition, if what is stored is chosen by one between the loop's results and what
    the loop has no part in."""
    value: Value = store.operands[1]
    while value.maker is not None and not value.maker.op.regions:
        node = value.maker
        of_loop = [each for each in node.operands if _is_made_by(graph, each, loop)]
        if node.name == "arith.select":
            condition, *either = node.operands[:3]
            made = graph.backward([condition], _is_straight)
            is_one = sum(each in of_loop for each in either) == 1
            is_known = any(map(is_load, made)) and not any(each.name in LOOPS for each in made)
            return condition.maker if is_one and is_known else None
        if len(of_loop) != 1:
            return None
        value = of_loop[0]
    return None


def discarded_products(graph: Graph) -> Iterator[Node]:
    """The ops that replace all of a product by a constant if a number says so that was loaded: the same one
    for all elements, and no branch asks for it."""
    branches = [value for node in graph.named(r"^(cf\.cond_br|scf\.if)$") for value in node.operands[:1]]
    asked = set(graph.backward(branches))
    for node in graph.nodes:
        if node.name != "arith.select" or not node.size:
            continue
        condition, *either = node.operands[:3]
        is_number = condition.maker is not None and condition.maker.name == "tt.splat"
        if not is_number or not any(map(_is_constant, either)):
            continue
        made = graph.backward([condition])
        loads = [each for each in made if is_load(each)]
        if not loads or any(each in asked for each in loads) or any(is_dot(each) for each in made):
            continue
        if any(is_dot(each) for each in graph.backward(either)):
            yield node


# Lanes that are masked off.


def _lanes(kernel: Kernel) -> Iterator[Where]:
    """Without it no lane of loads is masked off, nor computes for nobody; as it moves no bytes, waits for
    memory stay, and those for results if a warp has its scheduler for itself. What lanes do in loops is for
    what is loaded there. The line is that of the product in a loop, if there is one: it multiplies masked
    lanes as well. If those of a copy for a product are masked off, all that the step does for them is
    gone."""
    table = kernel.table
    loads, every = table.of("LDG") & (table.amount("sectors") > 0), table.of(*LOADS)
    wide = _lines_of_all_lanes(kernel, *FROM_GLOBAL)
    if wide:  # what has fewer elements, all lanes load alike: it tells nothing of theirs
        loads, every = loads & kernel.at(wide), every & kernel.at(wide)
    masked, in_loops = _masked_by_parts(kernel, loads, every), kernel.at(kernel.lines_in_loops)
    if not kernel.graph.named(_MEET) and not (in_loops & every).any():
        masked = min(masked, _not_stored(kernel))  # each lane stores what it has loaded
    is_alone = 0 < kernel.resources.resident_warps <= thresholds.SCHEDULERS
    removed = masked * (1 - table.stalled(*_MEMORY_WAITS, *(RESULTS if is_alone else ())))
    product = _product(kernel)
    place = product or _most_masked(kernel, loads)
    if product is None and table.share("executed", in_loops) > 1 / 2 and not (in_loops & loads).any():
        place = (
            table.place_executed(in_loops) or place
        )  # where lanes work that loads in front have masked off
    said = "{masked} work for loads that are masked off"
    copied_at, copied = _masked_copies(kernel)
    if not loads.any() or copied > masked:
        place, masked, removed, said = (
            copied_at,
            copied,
            copied,
            "{masked} of copies of an operand are masked off",
        )
    if masked > 0:
        yield Where(
            place, table.all,
            cites={"masked": Quantity(100 * masked, "% of the lanes")},
            amounts={"part": masked, "removed": removed}, text=said,
        )  # fmt: skip


def _lines_of_all_lanes(kernel: Kernel, *names: str) -> set[int]:
    """The lines that load or store an element or more of each lane of a CTA."""
    return {
        node.line
        for node in kernel.graph.nodes
        if node.name in names and node.operands and size_of(node.operands[0].type) >= kernel.lanes
    }


def _masked_by_parts(kernel: Kernel, *kinds: Mask) -> float:
    """The part of the lanes that are masked off in loads, the least of several kinds: in loops, and outside
    of them, by how many instructions are there. A part that loads nothing has what the other one loads."""
    inside, masked = kernel.at(kernel.lines_in_loops), 0.0
    for part in (inside, ~inside):
        least = (_masked(kernel, rows & part if (rows & part).any() else rows) for rows in kinds)
        masked += kernel.table.share("executed", part) * min(least)
    return masked


def _masked(kernel: Kernel, rows: Mask) -> float:
    """The part of the lanes that are masked off. Of copies, which run in all lanes, those that touch nothing:
    also in the last steps of a pipelined loop."""
    table = kernel.table
    lanes = LANES * table.amount("executed")
    touching = np.minimum(LANES * table.amount("sectors_ideal") / table.amount("bytes").clip(min=1), lanes)
    used = np.where(table.of("LDGSTS"), touching, table.amount("threads"))
    return 1 - float(used[rows].sum()) / max(1.0, float(lanes[rows].sum()))


def _not_stored(kernel: Kernel) -> float:
    """The part of the elements that programs compute and stores mask off; 1 if they store a few at most.
    Warps that store nothing may skip the instruction."""
    table, lines = kernel.table, _lines_of_all_lanes(kernel, "tt.store")
    types = [node.operands[1].type for node in kernel.graph.named(r"^tt\.store$") if node.line in lines]
    every = kernel.grid * table.launches * sum(size_of(each) * element_bytes(each) for each in types)
    rows = kernel.at(lines) & table.of("STG")
    stored = float((table.amount("threads") * table.amount("bytes"))[rows].sum())
    return 1 - min(1.0, stored / every) if every else 1.0


def _most_masked(kernel: Kernel, loads: Mask) -> Place:
    table = kernel.table
    lost = LANES * table.amount("executed") - table.amount("threads")
    return table.place_of_most(lost, loads) or kernel.place


def _product(kernel: Kernel) -> Place | None:
    """The line of most instructions that multiply tiles in a loop; None if there are none."""
    return kernel.table.place_executed(kernel.at(kernel.graph.lines(DOTS, loop=True)) & kernel.table.of(*MMA))


def _masked_copies(kernel: Kernel) -> tuple[Place, float]:
    """The line of the copies from global to shared memory with most lanes masked off, and their share. They
    run, but touch fewer sectors than those of the loop's operand that touches most: a pipelined loop masks
    both in its last steps. A vector has fewer elements than the CTA has lanes, of which the compiler then
    masks the others off."""
    table, most = kernel.table, (kernel.place, 0.0)
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
            most = max(most, (place, 1 - moved[place] / max(moved.values())), key=lambda each: each[1])
    return most


def _where(kernel: Kernel) -> Iterator[Where]:
    if kernel.graph.nodes:
        yield from _tiles(kernel)
        if "samples" in kernel.known:
            yield from _discarded(kernel)
    if kernel.known.issuperset(("counts", "samples")):
        yield from _lanes(kernel)


def _only_used(kernel: Kernel, where: Where) -> Edit:
    """Without a part of the work: of lanes that load nothing all but what memory moves, else of every
    kind."""
    part = float(where.amounts["part"])
    left = np.full(len(kernel.table), 1 - part)
    if "removed" in where.amounts:
        kept = {"tensor": 1 - part} | dict.fromkeys(("l1", "shared", "lsu"), 1 - part)
        return Edit(float(where.amounts["removed"]), left, kept=kept)
    return Edit(part, left, kept=dict.fromkeys(kernel.used, 1 - part))


RULES: Final = (
    Rule(
        "masked-work", frozenset(), _where, _only_used, "",
        "a block that fits the row: the next smaller power of two and a loop, or several rows a program; end "
        "the loop of a tile without rows",
    ),
)  # fmt: skip
