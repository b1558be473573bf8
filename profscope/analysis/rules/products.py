"""Rules about products of matrices: on tensor cores or not, the size of their tiles, and their waits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from profscope.analysis.cause import Quantity, of_instructions, of_peak, of_samples
from profscope.analysis.evidence_table import CONVERSION_OPS, LOAD_OPS, MMA_OPS, SECTOR_BYTES
from profscope.analysis.kernels.devices import PIPES
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import CASTS, DOTS, Kernel, computed_by, is_dot
from profscope.analysis.rules.rule import BY_BINARY, HOPPER, Rule, Where
from profscope.instrument_passes.analyses.graph import Graph, Node, Value

__all__ = [
    "GROWS",
    "OPERANDS",
    "RULES",
    "larger_tiles",
    "slow_products",
    "summed_products",
    "tile_of",
    "unoverlapped_products",
]

OPERANDS: Final = 2  # of a product, in front of what it adds to
_TILE: Final = re.compile(r"tensor<(\d+)x(\d+)x[a-z]")
GROWS: Final = ("l1", "lsu", "shared", "issue", "alu", "fma")
"""Resources whose use grows with the bytes that a product loads."""
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
_VERSION: Final = re.compile(r"nvidia_mma<\{versionMajor = (\d+).*?instrShape = \[([\d, ]+)\]")
_NONE_PENDING: Final = re.compile(r"pendings\s*=\s*0")


# Products that no tensor core does.


def summed_products(graph: Graph) -> set[int]:
    """The lines of multiplications whose results are summed, by a reduction or by additions, and of these
    sums. Each factor of a product of matrices lacks an axis that the other one has: with one such axis it is
    a matrix times a vector."""
    lines = set[int]()
    for total in graph.nodes:
        if not _is_sum(graph, total) or _is_read_before_the_end(graph, total):
            continue
        made = graph.backward(total.operands, lambda node: _THROUGH.match(node.name) is not None)
        products = [each for each in made if each.name == "arith.mulf"]
        if any(_is_of_matrices(graph, each) for each in products):
            lines |= {total.line, *(each.line for each in products)}
    return lines - {0}


def slow_products(kernel: Kernel) -> set[int]:
    """The lines of summed products, if they take much of the instructions."""
    lines = summed_products(kernel.graph)
    share = kernel.table.share("executed", kernel.at(lines) & kernel.table.of(*_FMA))
    return lines if share >= thresholds.MUCH else set()


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


def _is_of_matrices(graph: Graph, product: Node) -> bool:
    """Whether each factor lacks an axis that the other one has."""
    first, second = (_broadcast_axes(graph, value) for value in product.operands[:2])
    return bool(first - second) and bool(second - first)


def _broadcast_axes(graph: Graph, value: Value) -> set[int]:
    """The axes along which all elements are the same, as a value was broadcast along them."""
    made = graph.maker(
        value, lambda node: CASTS.match(node.name) is not None or node.name == "ttg.convert_layout"
    )
    if made is None or made.name != "tt.broadcast":
        return set()
    before, after = (re.findall(r"\d+(?=x)", each.type) for each in (made.operands[0], made.results[0]))
    return {axis for axis, sides in enumerate(zip(before, after, strict=False)) if sides[0] != sides[1]}


def _by_fma(kernel: Kernel) -> Iterator[Where]:
    """Without it tensor cores do the products, at a tenth of the time or less, and a CTA loads, converts and
    exchanges each operand once."""
    table, graph = kernel.table, kernel.graph
    dots = graph.lines(r"^tt\.dot")
    lines = dots or summed_products(graph)
    rows = kernel.at(lines) & table.of(*_FMA)
    if not dots:
        rows |= kernel.at(graph.lines(CASTS.pattern)) & table.of(*CONVERSION_OPS)
    share = table.share("executed", rows)
    if not lines or share < thresholds.MUCH or table.total("executed", table.of(*MMA_OPS)):
        return
    place = table.place_executed(rows & kernel.at(lines)) or kernel.place
    fetches = graph.lines(r"^ttg\.(local_load|convert_layout)$")
    rows |= kernel.at(lines | fetches) & table.of("LDS", "STS", "BAR")
    if not dots:  # which each thread loads for itself
        rows |= table.of("LDG")
    yield Where(
        place, Edit(table.waits(rows), without(rows)), {"fma": of_instructions(share)},
        advice="" if dots else "tl.dot instead of multiply, broadcast and sum",
    )  # fmt: skip


def _small(kernel: Kernel) -> Iterator[Where]:
    """Without it wide wgmma reads its operands from shared memory, and tiles are as large as those of good
    products."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    wide = table.of(*_WGMMA)
    sync = table.of(*MMA_OPS) & ~wide
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
    if tile is not None:
        at = 1 if narrow else 0
        side, axes = (tile.rows, tile.columns)[at], kernel.graph.depends(tile.product.operands[at]).axes
        if side < thresholds.WGMMA_SIDE and (
            not axes or kernel.grid * side < kernel.sms * thresholds.WGMMA_SIDE
        ):
            return  # there is no more to multiply, or larger tiles would leave SMs without one
    removed, larger = larger_tiles(kernel)
    left = without(table.of("LDS", "LDSM"))
    kept = kernel.resources.kept(Edit(0.0, left))
    kept = {name: kept.get(name, 1.0) * larger.get(name, 1.0) for name in {*kept, *larger}}
    waits = table.stalled(*_WAITS, by=("mma", "matrix load", "shared load"))
    yield Where(
        table.place_executed(sync | wide) or kernel.place, Edit(max(waits, removed), left, kept=kept),
        {
            "what": f"wgmma of {max(shapes)} columns" if narrow
            else "mma.sync instead of wgmma: tiles of 64 rows and 4 or more warps use wgmma",
            "tensor": of_peak(tensor),
        },
    )  # fmt: skip


def _small_by_layout(kernel: Kernel) -> Iterator[Where]:
    aliases = " ".join(kernel.graph.module.aliases.values())
    shapes = [(int(version), int(shape.split(",")[1])) for version, shape in _VERSION.findall(aliases)]
    lines = [
        node.line
        for node in kernel.graph.named(DOTS)
        if node.line and (tile := _TILE.match(node.results[0].type)) and int(tile[1]) >= thresholds.WGMMA_SIDE
    ]
    version, columns = max(shapes, default=(3, thresholds.WGMMA_SIDE))
    if lines and (version == 2 or columns < thresholds.WGMMA_SIDE):
        of_columns = Quantity(columns, "columns")
        what = f"mma.sync of {of_columns} instead of wgmma" if version == 2 else f"wgmma of {of_columns}"
        yield Where(kernel.line(lines[0]), None, {"what": what, "columns": of_columns})


# Products that wait.


def unoverlapped_products(graph: Graph) -> Iterator[tuple[Node, list[Node], list[Node]]]:
    """Products in a loop that cannot overlap the next step, the arithmetic on the result before another
    product is issued, and that which makes an operand in registers."""
    for product in graph.named(DOTS, loop=True):
        loop = product.loops[0]
        waits = [
            each for each in product.results[0].users if _NONE_PENDING.search(each.text) and each.loop is loop
        ]
        goals = [goal for wait in waits for goal in graph.forward(wait, graph.moves)]
        made = [each for value in product.operands[:OPERANDS] for each in computed_by(value, loop)[0]]
        of_result, of_operand = (list(filter(_is_arithmetic, each)) for each in (goals, made))
        if (of_result or of_operand) and product.line:
            yield product, of_result, of_operand


def _is_arithmetic(node: Node) -> bool:
    """Of tensors of floating point."""
    is_float = any(re.search(r"x(f|bf)\d", each.type) for each in node.results)
    return node.size > 0 and is_float and _ARITHMETIC.match(node.name) is not None


def _not_overlapped(kernel: Kernel) -> Iterator[Where]:
    """Without it the next product is issued before this one's result is used, and operands come from shared
    memory as they are: no instruction makes them. CTAs of an SM overlap each other's, too."""
    table, tensor = kernel.table, kernel.used.get("tensor", 0.0)
    found = [] if are_chained(kernel.graph) else list(unoverlapped_products(kernel.graph))
    if not found or not kernel.graph.named("warp_group_dot") or tensor > thresholds.NEAR_ROOF:
        return
    if tensor + max(kernel.used.get(pipe, 0.0) for pipe in PIPES) > 1:
        return  # they work at the same time
    rows = kernel.at({each.line for *_, made in found for each in made} - {0}) & ~table.of(
        *MMA_OPS, *LOAD_OPS
    )
    waits = table.stalled(
        "barrier", "gmma", "warpgroup_arrive", "long_scoreboard", "wait", by=("mma", "uniform", "barrier")
    )
    making = table.waits(rows)
    if waits + making < thresholds.MUCH:
        return
    by_casts = all(CASTS.match(each.name) for _, used, made in found for each in used + made)
    place = table.place_executed(rows) if by_casts else None
    yield Where(
        place or kernel.line(found[0][0].line), Edit(waits + making, without(rows)),
        {"tensor": of_peak(tensor), "waiting": of_samples(waits), "making": of_samples(making)},
        name="conversions" if by_casts else "",
        advice="store operands in the type of the dot; convert once, earlier" if by_casts else "",
    )  # fmt: skip


# The tiles of products, and what larger ones would bring.


class Tile(NamedTuple):
    """The tile of the largest product, in a loop if there is one."""

    rows: int
    columns: int
    product: Node


def tile_of(kernel: Kernel) -> Tile | None:
    found = [
        (bool(node.loops), Tile(int(tile[1]), int(tile[2]), node))
        for node in kernel.graph.named(DOTS)
        if node.results and (tile := _TILE.match(node.results[0].type))
    ]
    return max(found, key=lambda each: (each[0], each[1].rows * each[1].columns))[1] if found else None


def are_chained(graph: Graph) -> bool:
    """Whether a product in a loop multiplies what another product of the step has made, as in attention."""
    return any(
        is_dot(each)
        for node in graph.named(DOTS, loop=True)
        for value in node.operands[:OPERANDS]
        for each in computed_by(value, node.loops[0])[0]
    )


def larger_tiles(kernel: Kernel) -> tuple[float, dict[str, float]]:
    """The removed time, and the remaining use of resources, if tiles are as large as those of good products.

    A product of M by N elements loads M + N for each column of K, so 1 / M + 1 / N for a multiplication.
    Sides shorter than those of good products (64 rows, if a product multiplies the result of another, as in
    attention) could be as long if other tiles load the same again: the one operand's bytes are asked for
    several times as often as DRAM sends any. Data loaded once stays, and so does a product that no loop adds
    up."""
    tile, table = tile_of(kernel), kernel.table
    asked, read = SECTOR_BYTES * table.sectors(*LOAD_OPS), kernel.counters.get("dram_read", 0.0)
    if not asked or tile is None or not kernel.graph.named(DOTS, loop=True):
        return 0.0, {}
    good = thresholds.WGMMA_SIDE if are_chained(kernel.graph) else thresholds.TILE_SIDE
    sides = tile.rows + tile.columns
    longer_rows, longer_columns = (
        max(side, good) if asked * (sides - side) / sides >= thresholds.REREAD * read else side
        for side in (tile.rows, tile.columns)
    )
    left = (1 / longer_rows + 1 / longer_columns) / (1 / tile.rows + 1 / tile.columns)
    again = max(0.0, 1 - read / asked) * asked / kernel.resources.l2_bytes
    return (1 - left) * again, dict.fromkeys(GROWS, left) | {"l2": 1 - (1 - left) * again}


_SEEN: Final = frozenset({"use", "counts", "waits"})
RULES: Final = (
    Rule(
        "no-tensor-cores", frozenset({"counts", "waits", "ttgir"}), _by_fma,
        "a product of matrices by FMA: {fma}, none of the tensor cores",
        "tl.dot with tf32, bf16 or fp16 inputs", "high",
    ),
    Rule(
        "small-mma", _SEEN, _small,
        "{what}; the tensor pipe is at {tensor}", "larger tiles in M and N, 4 or 8 warps",
        architectures=HOPPER,
    ),
    Rule(
        "small-mma", frozenset(), _small_by_layout, "{what}" + BY_BINARY,
        "larger tiles in M and N, 4 or 8 warps", "low", architectures=HOPPER, unless=_SEEN,
    ),
    Rule(
        "mma-not-overlapped", _SEEN | {"ttgir"}, _not_overlapped,
        "each iteration waits for its own dot, with no other dot in flight; the tensor pipe is at {tensor}, "
        "{waiting} wait for dots or for other warps, {making} make operands in registers",
        "issue the next dot before using this one's result; scale outside the loop", "low",
        architectures=HOPPER,
    ),
)  # fmt: skip
