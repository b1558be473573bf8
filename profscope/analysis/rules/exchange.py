"""Rules about warps that meet and exchange data: reductions in each step, layout conversions, late warps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Quantity, of_instructions, of_peak, of_samples
from profscope.analysis.evidence_table import LANES, MMA
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.dataflow import computed_by, is_dot, is_elementwise, is_store, moved_from
from profscope.analysis.rules.kernel import Kernel
from profscope.analysis.rules.launch import LOADED
from profscope.analysis.rules.products import slow_products
from profscope.analysis.rules.rule import Rule, Where, as_removed
from profscope.instrument_passes.analyses.graph import Graph, Node, size_of

__all__ = ["RULES", "conversion_lines", "early_reductions"]

_MEETING: Final = ("barrier", "short_scoreboard", "mio_throttle")
_SHARED: Final = ("LDS", "STS", "LDSM", "STSM")
_CONVERSION: Final = "ttg.convert_layout"
_FROM_SHARED: Final = "ttg.local_load"
_INTO_SHARED: Final = "ttg.local_alloc"
_ORDER: Final = re.compile(r"order = \[[\d, ]+\]")


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
    lanes = table.amount("threads") / (LANES * executed.clip(min=1))
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


def _in_each_step(kernel: Kernel) -> Iterator[Where]:
    """Without it warps do not meet in each step. What a step only adds to a sum stays in registers, and warps
    meet once: no barrier keeps the loads of later steps from being in flight. What the next step needs, a
    single warp reduces: its lanes exchange values as those of each warp did, and nobody waits for shared
    memory or other warps."""
    table = kernel.table
    if table.of(*MMA).any() and table.total("executed", table.of(*MMA)):
        return
    fresh = {
        line: alone
        for line, alone in early_reductions(kernel.graph).items()
        if line not in kernel.lines_run_once
    }
    multiplied = slow_products(kernel)
    early = set(fresh) - multiplied
    shared = table.of("LDS", "STS", "BAR")
    across = shared & kernel.at(kernel.graph.lines(r"^tt\.reduce$", loop=True))
    needed = set(table.line[across & table.of("LDS")].tolist()) - early - multiplied - kernel.lines_run_once
    loads = (
        _loads_around(kernel, early)
        * (all(fresh.values()) and kernel.warps > 1)
        * (1 - 1 / thresholds.IN_FLIGHT)
    )
    lanes = (1 - 1 / kernel.warps) * table.waits(
        kernel.at(needed) & table.of_class("warp exchange"), *_MEETING
    )
    late = table.stalled("barrier") if any(_late(kernel)) else 0.0  # which the barriers wait for
    at_early, at_needed = kernel.at(early), kernel.at(needed)
    of_needed = table.waits(at_needed & shared, *_MEETING) + table.waits(at_needed & ~shared, "barrier")
    for rows, exchange, waits, in_warps, hidden, advice in (
        (at_early, shared | table.of("SHFL"), table.waits(at_early, *_MEETING), 0.0, loads, ""),
        (at_needed, shared, of_needed, lanes, lanes, _ONE_WARP),
    ):
        if waits + in_warps - late < thresholds.MUCH:
            continue
        said = "{who} in each step of the loop: {waiting} wait for that"
        cites: dict[str, Quantity | str] = {
            "waiting": of_samples(waits),
            "who": "warps meet" if kernel.warps > 1 else "lanes of the warp exchange values",
        }
        if in_warps:
            said, cites = (
                said + ", {exchanging} for exchanges in a warp",
                cites | {"exchanging": of_samples(in_warps)},
            )
        if kernel.used.get("shared", 0.0) >= thresholds.NEAR_ROOF:
            said, cites = (
                said + "; shared memory is at {busy}",
                cites | {"busy": of_peak(kernel.used["shared"])},
            )
        place = table.place_waited_for(rows, *_MEETING) or kernel.place
        yield Where(place, rows & exchange, cites, {"waits": waits + hidden}, text=said, advice=advice)


_ONE_WARP: Final = "fewer warps (num_warps), or a layout in which one warp has all that is reduced"


def _loads_around(kernel: Kernel, reductions: set[int]) -> float:
    """The part of the samples that wait for loads in the loops with these reductions."""
    loops = {
        loop for node in kernel.graph.named(r"^tt\.reduce$") if node.line in reductions for loop in node.loops
    }
    lines = {node.line for loop in loops for node in kernel.graph.inside(loop)} - {0}
    return kernel.table.waits(kernel.at(lines) & kernel.table.of_class(*LOADED), "long_scoreboard")


def _met_once(kernel: Kernel, where: Where) -> Edit:
    """If shared memory is at its limit, all wait for what fills it."""
    edit = Edit(0.0, without(where.mask))
    fullest = max(("shared", "l1"), key=lambda name: kernel.used.get(name, 0.0))
    is_full = kernel.used.get(fullest, 0.0) >= thresholds.NEAR_ROOF and not kernel.emulated
    held = 1 - kernel.resources.kept(edit)[fullest] if is_full else 0.0
    return Edit(max(float(where.amounts["waits"]), held), edit.left)


def early_reductions(graph: Graph) -> dict[int, bool]:
    """The lines of reductions in loops that could come behind the loop: each step only adds the result to
    what the loop carries. In loops with such a reduction of values that no earlier step has a part in, these
    are all such; a recurrence needs its reductions in each step. And whether all of the loop's are of such
    values."""
    found: defaultdict[Node, list[tuple[int, bool]]] = defaultdict(list)
    for node in graph.named(r"^tt\.reduce$", loop=True):
        loop = node.loops[0]
        if _is_accumulated(graph, node, loop):
            is_fresh = not any(computed_by(graph, operand, loop)[1] for operand in node.operands)
            found[loop].append((node.line, is_fresh))
    return {
        line: all(is_fresh for _, is_fresh in alike)
        for alike in found.values()
        if any(is_fresh for _, is_fresh in alike)
        for line, _ in alike
        if line
    }


def _is_accumulated(graph: Graph, reduction: Node, loop: Node) -> bool:
    """Whether all that uses a result in the loop combines it, element by element, with what the loop carries
    into what the loop carries on, and no step stores that."""

    def goes_on(node: Node) -> bool:
        return (
            node.is_in(loop)
            and node.loop is loop
            and is_elementwise(node)
            and _carried_on(graph, node, loop) is None
        )

    is_used = False
    for user in graph.forward(reduction, goes_on):
        if not user.is_in(loop):
            continue
        is_used = True
        carried = _carried_on(graph, user, loop)
        if carried is not None and _is_stored(graph, user, loop, carried):
            return False
        if carried is None and not goes_on(user):
            return False
    return is_used


def _carried_on(graph: Graph, node: Node, loop: Node) -> int | None:
    """Which carried value of the next step an op makes from that of this one, element by element; None if it
    makes none."""
    if not is_elementwise(node) or graph.moves(node):
        return None
    region = len(loop.op.regions) - 1
    arguments = graph.arguments(loop, region)
    first = 1 if loop.name == "scf.for" else 0
    mine = {value for value in _carried_into(graph, node, loop) if value in arguments}
    for end in graph.ends(loop, region):
        for index, given in enumerate(end.operands):
            at = index + first
            if at < len(arguments) and arguments[at] in mine and graph.maker(given, graph.moves) is node:
                return at
    return None


def _carried_into(graph: Graph, node: Node, loop: Node) -> set[object]:
    """The values that the loop carries, of which an op is computed element by element in the same step."""
    left, seen, found = [node], {node}, set[object]()
    while left:
        for value in left.pop().operands:
            if value.maker is None:
                found |= {value} if value.around is loop and not value.is_counter else set()
            elif value.maker not in seen and value.maker.loop is loop and is_elementwise(value.maker):
                seen.add(value.maker)
                left.append(value.maker)
    return found


def _is_stored(graph: Graph, made: Node, loop: Node, carried: int) -> bool:
    """Whether a step stores a value that the loop carries, what it makes of it, or what it computes of
    either."""
    value = graph.arguments(loop, len(loop.op.regions) - 1)[carried]
    for first in (made, *value.users):
        if not first.is_in(loop):
            continue
        users = [first, *graph.forward(first, lambda node: node.is_in(loop))]
        if any(is_store(node) and node.is_in(loop) for node in users):
            return True
    return False


# Layout conversions.


def _conversions(kernel: Kernel) -> Iterator[Where]:
    """Without it data stays in the layout that its producer has. If shared memory binds the kernel, the waits
    for its queue are of what fills it, by the part that it puts in."""
    table, lines = kernel.table, conversion_lines(kernel.graph)
    rows = kernel.at(set(lines)) & table.of(*_SHARED)
    share = table.waits(kernel.at(set(lines)) & table.of(*_SHARED, "BAR"))
    if max(kernel.used.get(name, 0.0) for name in ("shared", "l1", "lsu")) >= thresholds.BOUND:
        part = table.share("lsu", rows)
        share = max(share, part * table.stalled("short_scoreboard", "mio_throttle"))
    if share < thresholds.MUCH:
        return
    file, line = table.place_executed(rows) or kernel.place
    yield Where(
        (file, lines.get(line, line)), rows,
        cites={"moving": of_instructions(table.share("executed", rows)), "sampled": of_samples(share)},
        amounts={"waits": share},
    )  # fmt: skip


def _same_layout(kernel: Kernel, where: Where) -> Edit:
    return Edit(float(where.amounts["waits"]), without(where.mask))


def conversion_lines(graph: Graph) -> dict[int, int]:
    """The lines of layout conversions in loops, and of those of data that was converted before: one brings it
    from the layout of its loads to that of its stores. And where the source asks for them: at a transposition
    that has the layout of one side, if there is one. At the line of a reduction, which exchanges data, too,
    only those of a tensor as large as the one that it reduces."""
    reduced = defaultdict[int, int](int)
    turned: dict[tuple[Node | None, str], int] = {}
    for node in graph.nodes:
        if node.name == "tt.reduce":
            reduced[node.line] = max(reduced[node.line], *(size_of(each.type) for each in node.operands))
        elif node.name == "tt.trans":
            turned |= {(node.loop, _layout(each.type)): node.line for each in node.results}
    found = {}
    for node in graph.nodes:
        stored = _product_stored_by(graph, node)
        is_moved = node.name == _CONVERSION and not _brings_operand(graph, node) and not _turns(graph, node)
        if (
            not (is_moved or stored is not None)
            or not node.line
            or not (node.loops or _is_converted_again(graph, node))
        ):
            continue
        value, source = node.results[0], (stored or node).operands[0]
        if size_of(value.type) >= reduced[node.line]:
            sides = [(node.loop, _layout(each.type)) for each in (value, source)]
            found[node.line] = next((turned[side] for side in sides if side in turned), node.line)
    return found


def _layout(kind: str) -> str:
    return kind.partition(", ")[2]


def _is_load(graph: Graph, node: Node) -> bool:
    if node.name == _FROM_SHARED:
        return _product_stored_by(graph, node) is None
    return node.name in ("tt.load", "tt.descriptor_load")


def _brings_operand(graph: Graph, conversion: Node) -> bool:
    """Whether it brings what was loaded to the product that multiplies it."""
    made = moved_from(graph, conversion)
    goals = [node for node in graph.forward(conversion, graph.moves) if not graph.moves(node)]
    is_multiplied = bool(goals) and all(is_dot(node) for node in goals)
    return made is not None and _is_load(graph, made) and is_multiplied


def _turns(graph: Graph, conversion: Node) -> bool:
    """Whether it brings what a step loads along one axis to what it stores along another one: accesses of
    neighbours ask for that."""
    loop, value = conversion.loop, conversion.operands[0]
    before, after = (_ORDER.search(graph.layout(each.type)) for each in (value, conversion.results[0]))
    if loop is None or before is None or after is None or before[0] == after[0]:
        return False
    made, is_carried = computed_by(graph, value, loop)
    goals = [node for node in graph.forward(conversion, is_elementwise) if not is_elementwise(node)]
    is_loaded = any(_is_load(graph, each) for each in made) and not is_carried
    return is_loaded and bool(goals) and all(map(is_store, goals))


def _product_stored_by(graph: Graph, node: Node) -> Node | None:
    """Of a read from shared memory the op that has put a product there, which was in registers already. What
    was loaded and copied has to come to where it is multiplied: that is no change of layout."""
    if node.name != _FROM_SHARED or not node.operands:
        return None
    made = moved_from(graph, node)
    if made is None or made.loop is None or made.name in (_FROM_SHARED, "tt.load", "tt.descriptor_load"):
        return None
    found = [made, *(each for value in made.operands for each in computed_by(graph, value, made.loop)[0])]
    if not any(is_dot(each) for each in found):
        return None
    stored: Node | None = node
    while stored is not None and stored.name != _INTO_SHARED:
        stored = stored.operands[0].maker if stored.operands else None
    return stored


def _is_converted_again(graph: Graph, conversion: Node) -> bool:
    """Whether its data comes from another conversion of at least as much, and not from a product, too, whose
    layout what it is added to must have."""
    size = size_of(conversion.results[0].type)
    made = graph.backward(conversion.operands, lambda node: not _is_load(graph, node) and not node.op.regions)
    if any(
        is_dot(each) for node in made for each in (node, *(graph.inside(node) if node.op.regions else ()))
    ):
        return False
    return any(node.name == _CONVERSION and size_of(node.results[0].type) >= size for node in made)


_ALL: Final = frozenset({"counts", "samples", "ttgir"})
RULES: Final = (
    Rule(
        "late-warp", frozenset({"counts", "samples"}), _late, as_removed,
        "the loop at {loop} takes {steps} of a warp on average, depending on its data; {waiting} then wait "
        "for the last warp",
        "give all warps the same work: sort by length, another layout, or fewer barriers",
    ),
    Rule(
        "serial-reduction", _ALL, _in_each_step, _met_once,
        "",
        "keep a tensor of partial sums, and reduce once after the loop; if a step needs its result, "
        "fewer warps",
    ),
    Rule(
        "layout-conversion", _ALL, _conversions, _same_layout,
        "{moving} move tensors from one layout to another through shared memory, again and again; "
        "{sampled} are there",
        "an order of ops in which both sides share a layout; transpose once",
    ),
)  # fmt: skip
