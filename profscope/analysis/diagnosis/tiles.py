"""What larger tiles of a product would bring."""

from __future__ import annotations

import re
from typing import Final

from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.gains import Without

__all__ = ["without_small_tiles"]

_PRODUCT: Final = re.compile(r"tt\.dot$|warp_group_dot$")
_TILE: Final = re.compile(r"tensor<(\d+)x(\d+)x[a-z]")
_GROWS: Final = ("l1", "lsu", "shared", "issue", "alu", "fma")  # with the bytes that a product loads


def without_small_tiles(facts: KernelFacts) -> Without:
    """A product of M by N elements loads M + N for each column of K, so 1 / M + 1 / N for a multiplication.
    Sides shorter than those of good products could be as long if other tiles load the same again: the one
    operand's bytes are asked for several times as often as DRAM sends any. What is loaded once, stays."""
    rows, columns = _tile(facts)
    asked = 32.0 * facts.sectors("LDG", "LDGSTS")
    read = facts.counters.get("dram_read", 0.0)
    if not rows or not asked:
        return Without(0.0)
    longer_rows, longer_columns = (
        max(side, thresholds.TILE_SIDE)
        if asked * other / (rows + columns) >= thresholds.REREAD * read
        else side
        for side, other in ((rows, columns), (columns, rows))
    )
    left = (1 / longer_rows + 1 / longer_columns) / (1 / rows + 1 / columns)
    again = max(0.0, 1 - read / asked)
    return Without((1 - left) * again, dict.fromkeys(_GROWS, left) | {"l2": 1 - (1 - left) * again})


def _tile(facts: KernelFacts) -> tuple[int, int]:
    """Rows and columns of the largest product in a loop; 0 if there is none."""
    found = [
        (int(tile[1]), int(tile[2]))
        for op, _, inside in facts.located_ops
        if inside and _PRODUCT.search(op.name) and (tile := _TILE.match(op.results[0].type))
    ]
    return max(found, key=lambda tile: tile[0] * tile[1], default=(0, 0))
