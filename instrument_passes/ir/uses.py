"""Replace uses of a value, minding scopes: printed names are unique along nested regions only.

Sibling regions may reuse a name, a region may reuse one that the ops around it define later, and the
partitions of a warp-specialised op, isolated from above, may reuse any.
"""

from __future__ import annotations

from instrument_passes.ir.model import Block, Op, Region

__all__ = ["replace_uses"]


def replace_uses(name: str, new: str, within: Op | Block | Region) -> int:
    """Make every use of the value `name` in `within` use `new`; returns how many there were.

    `name` means what it means where `within` stands; in a region or a block that defines it, that definition.
    `%5` and `%5#0` are one value. Regions that define the name again, or that are isolated, are left alone.
    """
    same = {name, name[:-2] if name.endswith("#0") else f"{name}#0" if "#" not in name else name}
    if isinstance(within, Op):
        return _in_op(within, same, new)
    blocks = [within] if isinstance(within, Block) else within.blocks
    return sum(_in_op(op, same, new) for block in blocks for op in tuple(block.ops))


def _in_op(op: Op, same: set[str], new: str) -> int:
    header = op.header
    pieces = [header.pieces[index] for index in header.use_indices]
    edits = [(p.part, p.start, p.end, new) for p in pieces if p.text in same]
    op.splice(edits)
    count = len(edits)
    for region in op.regions:
        if not region.isolated and same.isdisjoint(op.module.definitions(region)):
            count += sum(_in_op(inner, same, new) for block in region.blocks for inner in tuple(block.ops))
    return count
