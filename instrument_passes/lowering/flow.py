"""The order in which a warp program runs, and which of its loops hold records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profscope.instrument_passes.analyses.walk import LOOPS, constant_of, recordable_blocks
from profscope.instrument_passes.dialect import is_record
from profscope.instrument_passes.ir import Block, Op, Region, scf

__all__ = ["Plan", "in_order", "static_trips"]


def in_order(region: Region) -> list[Block]:
    """The blocks that can be reached, each behind all that lead to it."""
    labelled = {block.label: block for block in region.blocks[1:]}
    order: list[Block] = []
    under_way: list[Block] = []

    def visit(block: Block) -> None:
        under_way.append(block)
        for label, _ in block.terminator.successors if block.terminator is not None else ():
            following = labelled.get(label, region.entry)
            if following in under_way:
                raise block.ops[-1].error("branches back; loops of branches are not supported")
            if following not in order:
                visit(following)
        order.append(under_way.pop())

    visit(region.entry)
    return order[::-1]


class Plan:
    """Of a region that is the body of the kernel or of a warp-specialised partition.

    calls: by call, the function that only this call calls, which counts as if it stood there. loops: those
    that hold records, in program order, each with the innermost one of them around it; None where there is
    none.
    """

    def __init__(self, region: Region, calls: Mapping[Op, Op]) -> None:
        self.calls = calls
        self.loops: dict[Op, Op | None] = {}
        for block in region.blocks:
            self._add(block, None)

    def below(self, op: Op) -> list[Op]:
        """The loops with records at and below an op."""
        return [inner for inner in self._walk(op) if inner in self.loops]

    def _add(self, block: Block, around: Op | None) -> None:
        loops = [op for top in block.ops for op in self._outermost_loops(top)]
        for loop in loops:
            mine = list(recordable_blocks(loop, into_partitions=False))
            if not any(is_record(op) for inner in mine for op in inner.ops):
                continue
            self.loops[loop] = around
            for inner in mine:
                if inner.parent_op is loop:
                    self._add(inner, loop)

    def _outermost_loops(self, op: Op) -> list[Op]:
        """Loops at or below `op` that are in no other loop below it; partitions are other warps' affair."""
        if op.name in LOOPS:
            return [op]
        if op.name == "ttg.warp_specialize":
            inside = [op.regions[0].entry]
        elif op.name == "scf.if":
            inside = [region.entry for region in op.regions]
        elif op in self.calls:
            inside = self.calls[op].regions[0].blocks
        else:
            return []
        return [loop for block in inside for inner in block.ops for loop in self._outermost_loops(inner)]

    def _walk(self, op: Op) -> Iterator[Op]:
        """The op and all below it, in the functions it calls too."""
        for inner in op.walk():
            yield inner
            if inner in self.calls:
                yield from self._walk(self.calls[inner])


def static_trips(loop: Op) -> int | None:
    """How often a scf.for with constant bounds iterates; None for any other loop."""
    if loop.name != "scf.for":
        return None
    header = scf.read_for(loop)
    bounds = [constant_of(loop, name) for name in (header.lower, header.upper, header.step)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    return max(0, -(-(upper - lower) // step)) if step > 0 else None
