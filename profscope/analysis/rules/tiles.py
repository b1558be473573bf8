"""The tiles of a product of matrices, and what larger ones would bring."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from profscope.analysis.evidence_table import LOADS, SECTOR_BYTES
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.dataflow import computed_by, is_dot
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.instrument_passes.analyses.graph import Graph, Node, Value

__all__ = ["GROWS", "OPERANDS", "Tile", "are_chained", "larger_tiles", "tile_of"]

OPERANDS: Final = 2  # of a product, in front of what it adds to
_TILE: Final = re.compile(r"tensor<(\d+)x(\d+)x[a-z]")
GROWS: Final = ("l1", "lsu", "shared", "issue", "alu", "fma")
"""Resources whose use grows with the bytes that a product loads."""


@dataclass(frozen=True)
class Tile:
    """Rows and columns of the largest product, in a loop if one is there, 0 if there is none; and whether
    other programs multiply the same columns, or rows, by others: only then could there be more of them."""

    rows: int
    columns: int
    more_rows: bool
    more_columns: bool


def tile_of(kernel: Kernel) -> Tile:
    found = [
        (bool(node.loops), int(tile[1]), int(tile[2]), node)
        for node in kernel.graph.named(DOTS)
        if node.results and (tile := _TILE.match(node.results[0].type))
    ]
    if not found:
        return Tile(0, 0, False, False)
    _, rows, columns, product = max(found, key=lambda tile: (tile[0], tile[1] * tile[2]))
    of_rows, of_columns = (_axes_of_operand(kernel, product, side) for side in (0, 1))
    if not of_rows and not of_columns:  # by descriptors
        return Tile(rows, columns, True, True)
    more_rows = bool(of_rows - _axes_of_operand(kernel, product, 1, distinct=True))
    more_columns = bool(of_columns - _axes_of_operand(kernel, product, 0, distinct=True))
    return Tile(rows, columns, more_rows, more_columns)


def _axes_of_operand(kernel: Kernel, product: Node, side: int, *, distinct: bool = False) -> frozenset[str]:
    """The axes of the grid by which programs load the rows (side 0) or columns of a product from different
    places; distinct: each program along them from its own."""
    graph, axes, left, seen = kernel.graph, frozenset[str](), [product.operands[side]], set[Value]()
    ask = graph.distinct if distinct else graph.depends
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        node = value.maker
        buffer = graph.buffer(value)
        if buffer is not None:
            for copy in graph.copies_into(buffer):
                axes |= ask(copy.operands[0]).axes
        elif node is None:
            continue
        elif node.name == "tt.load":
            axes |= ask(node.operands[0]).axes
        elif is_dot(node):
            left += node.operands[side : side + 1]
        else:
            left += value.sources
    return axes


def are_chained(graph: Graph) -> bool:
    """Whether a product in a loop multiplies what another product of the step has made, as in attention."""
    return any(
        is_dot(each)
        for node in graph.named(DOTS, loop=True)
        for value in node.operands[:OPERANDS]
        for each in computed_by(graph, value, node.loops[0])[0]
    )


def larger_tiles(kernel: Kernel) -> tuple[float, dict[str, float]]:
    """What is removed, and what stays of resources' use, if tiles are as large as those of good products.

    A product of M by N elements loads M + N for each column of K, so 1 / M + 1 / N for a multiplication.
    Sides shorter than those of good products (64 rows, if a product multiplies what another has made, as in
    attention) could be as long if other tiles load the same again: the one operand's bytes are asked for
    several times as often as DRAM sends any. What is loaded once, stays, and so does a product that no loop
    adds up."""
    tile, table = tile_of(kernel), kernel.table
    asked, read = SECTOR_BYTES * table.sectors(*LOADS), kernel.counters.get("dram_read", 0.0)
    if not asked or not tile.rows or not kernel.graph.named(DOTS, loop=True):
        return 0.0, {}
    good = thresholds.WGMMA_SIDE if are_chained(kernel.graph) else thresholds.TILE_SIDE
    sides = tile.rows + tile.columns
    longer_rows, longer_columns = (
        max(side, good) if more and asked * other / sides >= thresholds.REREAD * read else side
        for side, other, more in (
            (tile.rows, tile.columns, tile.more_rows), (tile.columns, tile.rows, tile.more_columns),
        )
    )  # fmt: skip
    left = (1 / longer_rows + 1 / longer_columns) / (1 / tile.rows + 1 / tile.columns)
    again = max(0.0, 1 - read / asked) * asked / kernel.resources.l2_bytes
    return (1 - left) * again, dict.fromkeys(GROWS, left) | {"l2": 1 - (1 - left) * again}
