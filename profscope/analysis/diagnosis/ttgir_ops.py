"""Questions to single ops of the TTGIR."""

from __future__ import annotations

import math
import re

from instrument_passes.analyses.walk import in_loop
from instrument_passes.ir.model import Op, Value

__all__ = [
    "adds_to",
    "compares_both",
    "elements",
    "is_gathered",
    "is_in_loop",
    "is_of_outer_loop",
    "is_of_program",
    "is_power_of_two",
    "line_of",
    "shape",
]


def line_of(op: Op) -> int:
    """In the kernel: of a function that was inlined, where the kernel calls it."""
    return op.loc.callers[-1].line if op.loc.callers else op.loc.line


def is_power_of_two(value: Value | None) -> bool:
    constant = re.search(r"(?:dense<|constant )(\d+)\b", str(value.owner)) if value is not None else None
    return constant is not None and int(constant[1]).bit_count() == 1


def shape(kind: str) -> list[int]:
    """Of a tensor type, of registers; [] for others."""
    sides = re.match(r"tensor<((?:\d+x)+)", kind)
    return [int(each) for each in sides.group(1).split("x")[:-1]] if sides else []


def elements(kind: str) -> int:
    """Of a tensor type, of registers; 0 for others."""
    return math.prod(shape(kind)) if shape(kind) else 0


def adds_to(op: Op, kind: str) -> bool:
    return op.name.endswith(("tt.dot", "warp_group_dot")) and any(each.type == kind for each in op.results)


def is_in_loop(op: Op) -> bool:
    return in_loop(op.parent_op)


def compares_both(compared: Op, loop: Op) -> bool:
    """Whether one side of a comparison depends on the loop's counter, and the other one on the program alone.
    Of a difference that is compared with a constant, the sides are those of the difference."""
    first, second = (_depends(compared, name, loop) for name in compared.operands[:2])
    if (first[0] and first[1]) or (second[0] and second[1]):
        for name in compared.operands[:2]:
            value = compared.resolve(name)
            if value is not None and isinstance(value.owner, Op) and value.owner.name == "arith.subi":
                return compares_both(value.owner, loop)
        return False
    return (first[0] and second[1]) or (first[1] and second[0])


def _depends(user: Op, name: str, loop: Op) -> tuple[bool, bool]:
    """Whether a value depends on the counter of a loop, and whether on the program's id."""
    counter = program = False
    left, seen = [(user, name)], set()
    while left:
        op, used = left.pop()
        value = op.resolve(used)
        if value is None or (id(value.owner), value.index) in seen:
            continue
        owner = value.owner
        seen.add((id(owner), value.index))
        if not isinstance(owner, Op):
            counter |= owner.parent_op is loop and value.index == 0
        elif owner.name == "tt.get_program_id":
            program = True
        elif not owner.regions:
            left += [(owner, each) for each in owner.operands]
    return counter, program


def is_gathered(op: Op) -> bool:
    """Whether the address was computed from what was loaded, or by a division."""
    left, seen = [(op, op.operands[0])], set()
    while left:
        user, name = left.pop()
        value = user.resolve(name)
        if value is None or not isinstance(value.owner, Op) or id(value.owner) in seen:
            continue
        owner = value.owner
        seen.add(id(owner))
        if owner.name == "tt.load" or re.match(r"arith\.(div|rem)[su]i$", owner.name):
            return True
        left += [(owner, each) for each in owner.operands]
    return False


def is_of_program(loop: Op) -> bool:
    """Whether a bound of a loop depends on the program's id."""
    return _bounds(loop)[0]


def is_of_outer_loop(loop: Op) -> bool:
    """Whether a bound of a loop depends on the counter of a loop around it."""
    return _bounds(loop)[1]


def _bounds(loop: Op) -> tuple[bool, bool]:
    """Whether a bound depends on the program's id, and whether on the counter of a loop around."""
    program = outer = False
    left, seen = [(loop, name) for name in loop.operands[:2]], set()
    while left:
        user, name = left.pop()
        value = user.resolve(name)
        if value is None or (id(value.owner), value.index) in seen:
            continue
        owner = value.owner
        seen.add((id(owner), value.index))
        if not isinstance(owner, Op):
            around = owner.parent_op
            outer |= around is not None and around.name == "scf.for" and value.index == 0
            program |= (
                owner.parent is not None and owner is not owner.parent.blocks[0]
            )  # which branch came here?
        elif owner.name == "tt.get_program_id":
            program = True
        else:  # what a branch yields depends on what is in it, and on its condition
            left += [(each, used) for each in owner.walk() for used in each.operands]
    return program, outer
