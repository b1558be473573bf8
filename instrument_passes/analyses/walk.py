"""The blocks in which records may be inserted: warps execute their ops one after another.

Bodies of reductions, scans and inline-assembly helpers are per element, and the condition part of a while
loop runs once more than its body, so records stay out of them. Bodies of noinline functions may hold records
where what calls them may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op, Region

__all__ = [
    "LOOPS",
    "callee_of",
    "constant_of",
    "in_loop",
    "kernel_of",
    "loop_body",
    "program_of",
    "recordable_blocks",
    "recordable_regions",
]

LOOPS: Final = frozenset({"scf.for", "scf.while"})
_CONSTANT: Final = re.compile(r"arith\.constant\s+(-?\d+)\s*:\s*(?:i\d+|index)")
_TRANSPARENT: Final = frozenset({"scf.for", "scf.while", "scf.if", "ttg.warp_specialize", "tt.func"})


def kernel_of(module: Module) -> Op:
    """The module's kernel: its one public function. Raises PassError when there is none or several."""
    public = [f for f in module.functions if " private " not in f.first_line and f.regions]
    if len(public) != 1:
        names = ", ".join(str(f.symbol) for f in public) or "none"
        raise PassError(
            f"expected one public tt.func with a body (the kernel), found {names}",
            module.filename,
            module.op.line,
        )
    return public[0]


def recordable_regions(op: Op) -> list[Region]:
    """The regions of `op` whose ops run in order, once per execution or iteration of `op`."""
    if op.name not in _TRANSPARENT:
        return []
    return op.regions[1:] if op.name == "scf.while" else op.regions


def recordable_blocks(op: Op, *, into_calls: bool = True, into_partitions: bool = True) -> Iterator[Block]:
    """All blocks below `op` that may hold records, in program order.

    Those of a noinline function come where it is first called, once; not at all without `into_calls`. Without
    `into_partitions` those are left out that run on other warps than `op`.
    """
    yield from _blocks(op, set() if into_calls else None, into_partitions)


def _blocks(op: Op, entered: set[Op] | None, into_partitions: bool) -> Iterator[Block]:
    """entered: functions that were visited, to which are added those visited here; None: enter none."""
    regions = recordable_regions(op)
    if op.name == "ttg.warp_specialize" and not into_partitions:
        regions = regions[:1]
    for region in regions:
        for block in tuple(region.blocks):
            yield block
            for inner in tuple(block.ops):
                callee = callee_of(inner) if inner.name == "tt.call" and entered is not None else None
                if callee is None:
                    yield from _blocks(inner, entered, into_partitions)
                elif entered is not None and callee not in entered:
                    entered.add(callee)
                    yield from _blocks(callee, entered, into_partitions)


def callee_of(call: Op) -> Op | None:
    """The function that a tt.call calls; None if the module has no body of it."""
    if call.symbol is None:
        raise call.error("expected the name of the function that is called")
    return next((f for f in call.module.functions if f.symbol == call.symbol and f.regions), None)


def loop_body(op: Op) -> Block:
    """The block that runs once per iteration of a loop."""
    return recordable_regions(op)[0].entry


def in_loop(op: Op | None) -> bool:
    """Whether an op is a loop or in one."""
    return op is not None and any(around.name in LOOPS for around in (op, *op.ancestors()))


def program_of(op: Op) -> Region | None:
    """The function body or partition that an op is in, which other warps may run."""
    region = op.parent.parent if op.parent is not None else None
    while region is not None and not region.isolated:
        region = region.parent.parent.parent if region.parent and region.parent.parent else None
    return region


def constant_of(op: Op, name: str) -> int | None:
    """The integer constant that a value is that `op` uses; None if it is none."""
    value = op.resolve(name)
    if value is None or not isinstance(value.owner, Op):
        return None
    match = _CONSTANT.search(value.owner.first_line)
    return int(match[1]) if match else None
