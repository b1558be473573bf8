"""Rules about products of matrices: whether tensor cores do them, and whether they wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from profscope.analysis.cause import of_instructions, of_peak, of_samples
from profscope.analysis.evidence_table import CONVERSIONS, LOADS, MMA
from profscope.analysis.kernels.devices import PIPES
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.dataflow import CASTS, FROM_INTEGER, computed_by, is_dot, is_store
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.analysis.rules.rule import HOPPER, Rule, Where, rows_removed
from profscope.analysis.rules.tiles import OPERANDS, larger_tiles, tile_of
from profscope.instrument_passes.analyses.graph import Graph, Node, Value, element_bytes
from profscope.instrument_passes.ir.signature import rank

__all__ = ["RULES", "Summed", "slow_products", "summed_products", "unoverlapped_products"]

_WGMMA: Final = ("HGMMA", "IGMMA", "QGMMA")
_WAITS: Final = ("wait", "math_pipe_throttle", "short_scoreboard", "mio_throttle", "gmma", "warpgroup_arrive")
_FMA: Final = ("FFMA", "FMUL", "FADD", "SHFL", "HFMA2", "HADD2")
_THROUGH: Final = re.compile(
    r"arith\.(extf|truncf|sitofp|uitofp|mulf|select)$|tt\.(broadcast|expand_dims|reshape|trans|fp_to_fp)$|"
    r"ttg\.convert_layout$"
)
"""Ops through which an element of a product stays one."""
_ADDING: Final = ("arith.addf", "scf.yield")  # what uses a sum that goes on
_ARITHMETIC: Final = re.compile(r"(arith|math)\.|tt\.(fp_to_fp|reduce|extern_elementwise)$")
_NONE_PENDING: Final = re.compile(r"pendings\s*=\s*0")


# Products that no tensor core does.


@dataclass(frozen=True)
class Summed:
    """The lines of multiplications whose results are summed, by a reduction or by additions, with the lines
    of these sums; and the lines that convert and load what is multiplied. Each factor of a product of
    matrices lacks an axis that the other one has: with one such axis it is a matrix times a vector."""

    sums: set[int]
    casts: set[int]
    loads: set[int]


def summed_products(graph: Graph) -> Summed:
    lacked = _lacked_axes(graph)
    sums, casts, loads = set[int](), set[int](), set[int]()
    for node in graph.nodes:
        if not _is_sum(graph, node) or _is_read_before_the_end(graph, node):
            continue
        made = _factors(graph, node)
        products = [each for each in made if each.name == "arith.mulf"]
        squares = {each: _squared_difference(each, node) for each in products}
        made += [
            each for square in squares.values() if square is not None for each in _factors(graph, square)
        ]
        if any(_is_of_matrices(squares[each] or each, lacked) for each in products):
            sums |= {node.line, *(each.line for each in products)}
            casts |= {each.line for each in made if CASTS.match(each.name)}
            loads |= {each.line for each in made if each.name == "tt.load"}
    return Summed(sums - {0}, casts - {0}, loads - {0})


def slow_products(kernel: Kernel) -> set[int]:
    """The lines of summed products, if they take much of the instructions."""
    sums = summed_products(kernel.graph).sums
    share = kernel.table.share("executed", kernel.at(sums) & kernel.table.of(*_FMA))
    return sums if share >= thresholds.MUCH else set()


def _is_sum(graph: Graph, node: Node) -> bool:
    if node.name == "tt.reduce":
        return any(each.name == "arith.addf" for each in graph.inside(node))
    return node.name == "arith.addf" and node.size > 0


def _is_read_before_the_end(graph: Graph, node: Node) -> bool:
    """Whether something reads a sum before all is added, as each step of a recurrence reads its state: no
    single product of matrices gives it what it reads."""
    if node.name != "arith.addf":
        return False
    carried = [
        value
        for loop in node.loops[:1]
        for value in graph.arguments(loop)[1:]
        if node.results[0] in value.sources
    ]
    readers = [user for value in (node.results[0], *carried) for user in value.users if user is not node]
    return any(user.name not in _ADDING for user in readers)


def _factors(graph: Graph, node: Node) -> list[Node]:
    """The ops that an op's operands are made by, as far as elements stay the same ones, back to loads."""
    made = graph.backward(node.operands, lambda each: _THROUGH.match(each.name) is not None)
    return [each for each in made if _THROUGH.match(each.name) or each.name == "tt.load"]


def _squared_difference(product: Node, total: Node) -> Node | None:
    """Of (x - y)**2, summed by a loop, x - y. It is x**2 + y**2 less 2 * x * y, whose sum is a product of
    matrices."""
    first, second = product.operands[:2]
    if first is not second or first.maker is None or first.maker.name != "arith.subf":
        return None
    is_carried = any(value.maker is None for value in total.operands)
    return first.maker if is_carried or total.name == "tt.reduce" else None


def _is_of_matrices(node: Node, lacked: Mapping[Value, set[int]]) -> bool:
    """Whether each operand lacks an axis that the other one has."""
    first, second = (lacked.get(value, set()) for value in node.operands[:2])
    return bool(first - second) and bool(second - first)


def _lacked_axes(graph: Graph) -> dict[Value, set[int]]:
    """By value the axes along which all its elements are the same, as it was broadcast along them."""
    found: dict[Value, set[int]] = {}
    for node in graph.nodes:
        if not node.results or not node.size:
            continue
        value = node.results[0]
        if node.name in ("tt.splat", "arith.constant"):
            found[value] = set(range(rank(value.type)))
        elif _THROUGH.match(node.name) and node.name != "tt.reshape" and node.operands:
            given = node.operands[1:] if node.name == "arith.select" else node.operands
            common = set.intersection(*(found.get(each, set()) for each in given))
            found[value] = _moved_axes(node, common)
    return found


def _moved_axes(node: Node, lacked: set[int]) -> set[int]:
    """Those of its result, from those of its operands."""
    before, after = (
        re.findall(r"(\d+)x", each.type.partition(",")[0]) for each in (node.operands[0], node.results[0])
    )
    if node.name == "tt.broadcast" and len(before) == len(after):
        return lacked | {axis for axis, side in enumerate(after) if side != before[axis]}
    if node.name == "tt.expand_dims":
        new = node.op.integer("axis") or 0
        return {axis + (axis >= new) for axis in lacked}
    if node.name == "tt.trans":
        order = [
            int(each) for each in re.findall(r"\d+", node.op.attributes.get("order", "").partition(":")[2])
        ]
        return {axis for axis, source in enumerate(order) if source in lacked}
    return lacked


def _by_fma(kernel: Kernel) -> Iterator[Where]:
    """Without it tensor cores do the products, at a tenth of the time or less, and a CTA loads each operand
    once."""
    table = kernel.table
    if table.total("executed", table.of(*MMA)):
        return
    dots, summed = kernel.graph.lines(r"^tt\.dot"), summed_products(kernel.graph)
    lines = dots or summed.sums
    rows = kernel.at(lines) & table.of(*_FMA)
    if not dots:
        rows |= kernel.at(summed.casts) & table.of(*CONVERSIONS)
    share = table.share("executed", rows)
    if not lines or share < thresholds.MUCH:
        return
    place = table.place_executed(rows & kernel.at(lines)) or kernel.place
    rows |= kernel.at(lines | _fetch_lines(kernel.graph)) & table.of("LDS", "STS", "BAR")
    if not dots:  # which each thread loads for itself
        rows |= kernel.at(summed.loads) & table.of("LDG")
    yield Where(
        place, rows, cites={"fma": of_instructions(share)},
        amounts={"removed": table.waits(rows) if "samples" in kernel.known else share},
        advice="" if dots else "tl.dot instead of multiply, broadcast and sum",
    )  # fmt: skip


def _fetch_lines(graph: Graph) -> set[int]:
    """The lines that bring operands of products from shared memory to registers."""
    found = set()
    for product in graph.named(DOTS):
        for value in product.operands[:OPERANDS]:
            made = value.maker
            while made is not None:
                if made.name in ("ttg.local_load", "ttg.convert_layout"):
                    found.add(made.line)
                passes_on = graph.moves(made) or CASTS.match(made.name)
                made = made.operands[0].maker if passes_on and made.operands else None
    return found - {0}


def _small(kernel: Kernel) -> Iterator[Where]:
    """Without it wide wgmma reads its operands from shared memory, and tiles are as large as those of good
    products."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    wide = table.of(*_WGMMA)
    sync = table.of(*MMA) & ~wide
    if tensor > thresholds.NEAR_ROOF or not (wide | sync).any() or kernel.graph.named("warp_specialize"):
        return
    shapes = [
        int(found[1])
        for opcode in table.rows["opcode"][wide]
        if (found := re.search(r"\.64x(\d+)x", str(opcode)))
    ]
    narrow = bool(shapes) and max(shapes) < thresholds.WGMMA_SIDE
    if not narrow and (wide.any() or not sync.any()):
        return
    tile = tile_of(kernel)
    is_whole = not tile.more_columns if narrow else tile.rows < thresholds.WGMMA_SIDE and not tile.more_rows
    if tile.rows and is_whole:
        return  # there is no more to multiply
    side = tile.columns if narrow else tile.rows
    if 0 < side < thresholds.WGMMA_SIDE and kernel.grid * side < kernel.sms * thresholds.WGMMA_SIDE:
        return  # larger tiles would leave SMs without one
    yield Where(
        table.place_executed(sync | wide) or kernel.place, table.of("LDS", "LDSM"),
        cites={
            "what": f"wgmma of {max(shapes)} columns" if narrow
            else "mma.sync instead of wgmma: tiles of 64 rows and 4 or more warps use wgmma",
            "tensor": of_peak(tensor),
        },
        amounts={"waits": table.stalled(*_WAITS, by=("mma", "matrix load", "shared load"))},
    )  # fmt: skip


def _wide(kernel: Kernel, where: Where) -> Edit:
    removed, larger = larger_tiles(kernel)
    left = without(where.mask)
    kept = kernel.resources.kept(Edit(0.0, left))
    both = {name: kept.get(name, 1.0) * larger.get(name, 1.0) for name in {*kept, *larger}}
    return Edit(max(float(where.amounts["waits"]), removed), left, kept=both)


# Products that wait.


@dataclass(frozen=True)
class Unoverlapped:
    """Why a product in a loop cannot overlap the next step: arithmetic on its result before another product
    is issued, or arithmetic, or another product, that makes an operand in registers.

    operand_lines: of the latter. by_casts: whether that converts types, and nothing else. widened: by line of
    a load of integers, how many times as many bytes it would load in the type that the product multiplies."""

    line: int
    operand_lines: set[int]
    by_casts: bool
    widened: Mapping[int, float]


def unoverlapped_products(graph: Graph) -> list[Unoverlapped]:
    """Products of which others in the same step are made are left out: those wait for them in any order. But
    (x a) b with the same b in each step is as well the sum of all x a times b, behind the loop."""
    products: dict[Node, list[Node]] = {}
    for node in graph.named(DOTS, loop=True):
        products.setdefault(node.loops[0], []).append(node)
    found = []
    for loop, inside in products.items():
        made_by = {
            node: [each for value in node.operands[:OPERANDS] for each in computed_by(graph, value, loop)[0]]
            for node in inside
        }
        if any(is_dot(each) for made in made_by.values() for each in made):
            late = [node for node in inside if node.line and _could_be_behind(graph, node, loop)]
            found += [Unoverlapped(node.line, set(), False, {}) for node in late]
            continue
        for node, made in made_by.items():
            waits = [
                user
                for user in node.results[0].users
                if _NONE_PENDING.search(user.text) and user.loop is loop
            ]
            goals = [goal for wait in waits for goal in graph.forward(wait, graph.moves)]
            of_result = [goal for goal in goals if _is_arithmetic(goal) and not _is_stored_as(graph, goal)]
            of_operand = [each for each in made if _is_arithmetic(each)]
            if (of_result or of_operand) and node.line:
                by_casts = all(CASTS.match(each.name) for each in of_result + of_operand)
                widened = dict(_widened(graph, each) for each in of_operand if each.name in FROM_INTEGER)
                found.append(
                    Unoverlapped(node.line, {each.line for each in of_operand} - {0}, by_casts, widened)
                )
    return found


def _is_arithmetic(node: Node) -> bool:
    """Of tensors of floating point."""
    is_float = any(re.search(r"x(f|bf)\d", each.type) for each in node.results)
    return node.size > 0 and is_float and _ARITHMETIC.match(node.name) is not None


def _is_stored_as(graph: Graph, cast: Node) -> bool:
    """Whether it only brings a result to the type in which it is stored."""
    if not CASTS.match(cast.name):
        return False
    goals = [node for node in graph.forward(cast, graph.moves) if not graph.moves(node)]
    return bool(goals) and all(map(is_store, goals))


def _widened(graph: Graph, cast: Node) -> tuple[int, float]:
    """The line of what a conversion converts, and how many times as many bytes the result has."""
    source = graph.maker(cast.operands[0], graph.moves)
    times = element_bytes(cast.results[0].type) / element_bytes(cast.operands[0].type)
    return (0 if source is None else source.line), times


def _could_be_behind(graph: Graph, product: Node, loop: Node) -> bool:
    """Whether it multiplies another product of the step by what is the same in all steps."""
    first, second = product.operands[:OPERANDS]
    for made, other in ((first, second), (second, first)):
        source = graph.maker(
            made,
            lambda node: (
                graph.moves(node) or CASTS.match(node.name) is not None or node.name.endswith("dot_wait")
            ),
        )
        is_product = source is not None and is_dot(source) and source.is_in(loop)
        if is_product and computed_by(graph, other, loop) == ([], False):
            return True
    return False


def _not_overlapped(kernel: Kernel) -> Iterator[Where]:
    """Without it the next product is issued before this one's result is used, and operands come from shared
    memory as they are: no instruction makes them, but those of a wider type are more bytes. CTAs of an SM
    overlap each other's, too."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    found = unoverlapped_products(kernel.graph)
    if not found or not kernel.graph.named("warp_group_dot") or tensor > thresholds.NEAR_ROOF:
        return
    if tensor + max(kernel.used.get(pipe, 0.0) for pipe in PIPES) > 1:
        return  # they work at the same time
    rows = kernel.at({line for each in found for line in each.operand_lines}) & ~table.of(*MMA, *LOADS)
    waits = table.stalled(
        "barrier", "gmma", "warpgroup_arrive", "long_scoreboard", "wait", by=("mma", "uniform", "barrier")
    )
    making, by_casts = table.waits(rows), all(each.by_casts for each in found)
    if waits + making < thresholds.MUCH:
        return
    place = table.place_executed(rows) if by_casts else None
    yield Where(
        place or kernel.line(found[0].line), rows,
        cites={"tensor": of_peak(tensor), "waiting": of_samples(waits), "making": of_samples(making)},
        amounts={
            "removed": waits + making, "by_casts": by_casts,
            "widened": {line: times for each in found for line, times in each.widened.items()},
        },
        name="conversions" if by_casts else "",
        advice="store operands in the type of the dot; convert once, earlier" if by_casts else "",
    )  # fmt: skip


def _overlapped(kernel: Kernel, where: Where) -> Edit:
    edit = rows_removed(kernel, where)
    if not where.amounts["by_casts"]:
        return edit
    table, widened = kernel.table, where.amounts["widened"]
    loads = table.of(*LOADS)
    times = np.array([widened.get(int(line), 1.0) for line in table.line[loads]])
    sectors = table.amount("sectors")[loads]
    more = float((sectors * times).sum() / max(1.0, float(sectors.sum())))
    kept = kernel.resources.kept(edit)
    return Edit(edit.removed, edit.left, kept={
        name: more * kept.get(name, 1.0) for name in ("dram", "l2", "l1", "shared")
    })  # fmt: skip


_SEEN: Final = frozenset({"counters", "counts", "samples"})
RULES: Final = (
    Rule(
        "no-tensor-cores", frozenset({"counts", "ttgir"}), _by_fma, rows_removed,
        "a product of matrices by FMA: {fma}, none of the tensor cores",
        "tl.dot with tf32, bf16 or fp16 inputs", "high",
    ),
    Rule(
        "small-mma", _SEEN, _small, _wide,
        "{what}; the tensor pipe is at {tensor}", "larger tiles in M and N, 4 or 8 warps",
        architectures=HOPPER,
    ),
    Rule(
        "mma-not-overlapped", _SEEN | {"ttgir"}, _not_overlapped, _overlapped,
        "each iteration waits for its own dot, with no other dot in flight; the tensor pipe is at {tensor}, "
        "{waiting} wait for dots or for other warps, {making} make operands in registers",
        "issue the next dot before using this one's result; scale outside the loop", "low",
        architectures=HOPPER,
    ),
)  # fmt: skip
