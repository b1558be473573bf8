"""scf.if: give it results."""

from __future__ import annotations

from collections.abc import Sequence

from instrument_passes.ir import edit
from instrument_passes.ir.model import Block, Op, Region

__all__ = ["add_results", "ensure_else"]


def ensure_else(op: Op) -> Region:
    """The else region of an scf.if, added if there is none."""
    if op.name != "scf.if":
        raise op.error("expected an scf.if")
    if len(op.regions) == 1:
        indent = op.lead.rpartition("\n")[2]
        op.insert_region(2, "} else {", Region("", [Block("", [])], f"\n{indent}"))
    return op.regions[1]


def add_results(
    op: Op, types: Sequence[str], then_values: Sequence[str], else_values: Sequence[str]
) -> list[str]:
    """Yield one more value of each type from both branches; returns the names of the new results."""
    if not len(types) == len(then_values) == len(else_values):
        raise op.error("expected as many values for each branch as types")
    ensure_else(op)
    if not types:
        return []
    results = [op.module.fresh() for _ in types]
    header = op.header
    body = next(i for i in header.top_level() if header.opens_region(i))
    arrow = header.find("->", 0, body)
    if arrow is None:
        typed = edit.insert_at(header, body, f"-> ({', '.join(types)}) ")
    else:
        typed = edit.add_types(header, arrow + 1, body, types)
    op.splice([edit.add_results(header, results), typed])
    for region, values in zip(op.regions, (then_values, else_values), strict=True):
        edit.extend_terminator(edit.ensure_terminator(region.entry, "scf.yield"), values, types)
    return results
