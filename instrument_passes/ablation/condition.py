"""A condition that never holds, and that no compiler can know: an argument below anything it can be."""

from __future__ import annotations

from typing import Final, NamedTuple

from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op, flow
from profscope.instrument_passes.ir.model import Value
from profscope.instrument_passes.ir.tokens import unquote

__all__ = ["Condition", "Conditions"]

_LEAST: Final = -1_000_000
_MOVES: Final = {
    "cuda": '"mov.b32 $0, $1;" {constraints = "=r,r"',
    "hip": '"v_mov_b32 $0, $1" {constraints = "=v,v"',
}


class Condition(NamedTuple):
    """The names of an i1 that never holds, and of the i32 that it is of, which no compiler knows."""

    name: str
    number: str


class Conditions:
    """Of a module.

    A pointer is never negative, on any GPU. Without a pointer an integer argument is taken, and an op is
    executed if that is below -1,000,000.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        target = unquote(module.attr("ttg.target") or '""')
        self._move = _MOVES[target.partition(":")[0]]
        self._signs: dict[Block, str] = {}

    def before(self, op: Op, *, changes: bool = False) -> Condition:
        """Compute the condition in front of an op. changes: LLVM may not see that it is the same in
        all steps of a loop; of a branch in a loop it would make two loops.

        Raises PassError if the function has no fitting argument.
        """
        number, name = self._sign(op), self._module.fresh("ablate")
        lines = []
        if changes:
            asm = f"tt.elementwise_inline_asm {self._move}, packed_element = 1 : i32, pure = false}}"
            lines, number = [f"{name}_moved = {asm} {number} : i32 -> i32"], f"{name}_moved"
        lines += [
            f"{name}_least = arith.constant {_LEAST} : i32",
            f"{name} = arith.cmpi slt, {number}, {name}_least : i32",
        ]
        op.insert_before("\n".join(lines))
        return Condition(name, number)

    def _sign(self, op: Op) -> str:
        """An i32 of the function or partition that an op is in, which is never below `_LEAST`."""
        block = _entry(op)
        if block not in self._signs:
            self._signs[block] = self._captured(block) or self._computed(block, op)
        return self._signs[block]

    def _captured(self, block: Block) -> str:
        """That of the function, handed to a partition; "" outside of partitions."""
        specialize = block.parent_op
        if specialize is None or specialize.name != "ttg.warp_specialize":
            return ""
        names = flow.add_capture(specialize, self._sign(specialize), "i32")
        for partition, name in zip(flow.partitions(specialize), names, strict=True):
            self._signs[partition.region.entry] = name
        return self._signs[block]

    def _computed(self, block: Block, op: Op) -> str:
        """From an argument of the function."""
        argument = _argument(block)
        if argument is None:
            raise PassError(
                "no experiment without an argument that is a pointer or an integer",
                self._module.filename,
                op.line,
            )
        if argument.type == "i32":
            return argument.name
        name = self._module.fresh("ablate")
        lines, number = [], argument.name
        if argument.type.startswith("!tt.ptr"):
            number = f"{name}_at"
            lines = [f"{number} = tt.ptr_to_int {argument.name} : {argument.type} -> i64"]
        lines += [
            f"{name}_bits = arith.constant 32 : i64",
            f"{name}_high = arith.shrsi {number}, {name}_bits : i64",
            f"{name} = arith.trunci {name}_high : i64 to i32",
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


def _argument(block: Block) -> Value | None:
    """A pointer among the arguments, one that is used if there is any, else an integer."""
    used = {name for op in block.module.walk() for name in op.operands}
    pointers = [each for each in block.args if each.type.startswith("!tt.ptr")]
    pointers.sort(key=lambda each: each.name not in used)
    numbers = [each for each in block.args if each.type in ("i32", "i64")]
    return next(iter(pointers + numbers), None)
