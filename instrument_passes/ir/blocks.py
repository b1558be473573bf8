"""Blocks joined by branches: predecessors, and one more block argument."""

from __future__ import annotations

from collections.abc import Callable

from instrument_passes.errors import IRError
from instrument_passes.ir import edit
from instrument_passes.ir.model import Block, Op

__all__ = ["add_argument", "predecessors"]


def predecessors(block: Block) -> list[Op]:
    """The branches that lead to the block, each once."""
    region, label = block.parent, block.label
    if region is None or label is None:
        return []
    ends = (other.ops[-1] for other in region.blocks if other.ops)
    return [op for op in ends if any(target == label for target, _ in op.successors)]


def add_argument(block: Block, kind: str, value_for: Callable[[Op], str]) -> str:
    """Add an argument of type `kind`; `value_for(branch)` names what each branch to the block passes.

    Returns the argument's name. A branch that leads to the block twice passes the value twice. Raises IRError
    for a block without a label: nothing branches to it, its arguments are those of the op around it.
    """
    if block.label is None:
        raise IRError("expected a block with a label", block.module.filename)
    branches = [(op, value_for(op)) for op in predecessors(block)]
    name = block.module.fresh()
    for op, value in branches:
        op.splice(_edits(op, block.label, value, kind))
    edit.label_argument(block, name, kind)
    return name


def _edits(branch: Op, target: str, value: str, kind: str) -> list[edit.Edit]:
    """Pass one more value to each mention of `target`: `^bb1` or `^bb1(%a : T)`."""
    header = branch.header
    edits = []
    for label, start, end in header.successor_ranges:
        if header.pieces[label].text != target:
            continue
        colon = header.find(":", start, end)
        if colon is None:
            edits.append(edit.insert_behind(header, label, f"({value} : {kind})"))
        else:
            edits.append(edit.insert_behind(header, colon - 1, f", {value}"))
            edits.append(edit.insert_behind(header, end - 1, f", {kind}"))
    return edits
