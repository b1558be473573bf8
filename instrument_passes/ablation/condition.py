"""A condition that never holds, and that no compiler can know: an argument below anything it can be."""

from __future__ import annotations

from typing import Final

from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op, warp_specialize
from profscope.instrument_passes.ir.model import Value

__all__ = ["Conditions"]

_LEAST: Final = -(2**31) + 1


class Conditions:
    """Of a module: one i1 value for each function and partition in which an op asks for it.

    A pointer is never negative, on any GPU; an integer argument is taken if there is no pointer, as it is
    hardly ever the least one.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._of_block: dict[Block, str] = {}

    def at(self, op: Op) -> str:
        """The name of the condition for an op. Raises PassError if the function has no fitting argument."""
        block = _entry(op)
        if block not in self._of_block:
            self._of_block[block] = self._captured(block) or self._computed(block, op)
        return self._of_block[block]

    def _captured(self, block: Block) -> str:
        """The condition of the function, handed to a partition; "" outside of partitions."""
        specialize = block.parent_op
        if specialize is None or specialize.name != "ttg.warp_specialize":
            return ""
        names = warp_specialize.add_capture(specialize, self.at(specialize), "i1")
        for partition, name in zip(warp_specialize.partitions(specialize), names, strict=True):
            self._of_block[partition.region.entry] = name
        return self._of_block[block]

    def _computed(self, block: Block, op: Op) -> str:
        """From an argument of the function."""
        argument = _unknown(block)
        if argument is None:
            raise PassError(
                "no experiment without an argument that is a pointer or an integer",
                self._module.filename,
                op.line,
            )
        name = self._module.fresh("ablate")
        number, kind, bound, lines = argument.name, argument.type, _LEAST, []
        if argument.type.startswith("!tt.ptr"):
            number, kind, bound = f"{name}_at", "i64", 0
            lines = [f"{number} = tt.ptr_to_int {argument.name} : {argument.type} -> i64"]
        lines += [
            f"{name}_least = arith.constant {bound} : {kind}",
            f"{name} = arith.cmpi slt, {number}, {name}_least : {kind}",
        ]
        block.prepend("\n".join(lines))
        return name


def _entry(op: Op) -> Block:
    """The first block of the function or partition that an op is in."""
    block = op.parent
    while block is not None and block.parent is not None:
        if block.parent.isolated:
            return block.parent.entry
        block = block.parent.parent.parent if block.parent.parent is not None else None
    raise PassError("the op is in no function", op.module.filename, op.line)


def _unknown(block: Block) -> Value | None:
    """A pointer among the arguments, else an integer."""
    pointers = [each for each in block.args if each.type.startswith("!tt.ptr")]
    numbers = [each for each in block.args if each.type in ("i32", "i64")]
    return next(iter(pointers + numbers), None)
