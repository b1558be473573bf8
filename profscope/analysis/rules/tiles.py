"""The tiles of a product of matrices, and what larger ones would bring."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from profscope.analysis.evidence_table import LOADS, SECTOR_BYTES
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.dataflow import computed_by, is_dot
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.instrument_passes.analyses.graph import Graph, Node

__all__ = ["GROWS", "OPERANDS", "Tile", "are_chained", "larger_tiles", "tile_of"]

OPERANDS: Final = 2  # of a product, in front of what it adds to
_TILE: Final = re.compile(r"tensor<(\d+)x(\d+)x[a-z]")
GROWS: Final = ("l1", "lsu", "shared", "issue", "alu", "fma")
"""Resources whose use grows with the bytes that a product loads."""


class Tile(NamedTuple):
    """Of the largest product, in a loop if one is there."""

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
    if not asked or tile is None or not kernel.graph.named(DOTS, loop=True):
        return 0.0, {}
    good = thresholds.WGMMA_SIDE if are_chained(kernel.graph) else thresholds.TILE_SIDE
    sides = tile.rows + tile.columns
    longer_rows, longer_columns = (
        max(side, good) if asked * (sides - side) / sides >= thresholds.REREAD * read else side
        for side in tile[:2]
    )
    left = (1 / longer_rows + 1 / longer_columns) / (1 / tile.rows + 1 / tile.columns)
    again = max(0.0, 1 - read / asked) * asked / kernel.resources.l2_bytes
    return (1 - left) * again, dict.fromkeys(GROWS, left) | {"l2": 1 - (1 - left) * again}
