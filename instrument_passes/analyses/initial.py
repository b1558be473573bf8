"""The value of an integer when the code that computes it runs for the first time, where the text tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from instrument_passes.ir import Block, Value, for_op

__all__ = ["initial_value"]

_CONSTANT: Final = re.compile(r"arith\.constant\s+(?:\{[^{}]*\}\s*)?(-?\d+|true|false)\b")
_COMPARE: Final = re.compile(r"arith\.cmpi\s+(\w+)")
_WIDTH: Final = re.compile(r"[0-9]{1,3}")
_DEEPEST: Final = 50
_BINARY: Final[Mapping[str, Callable[[int, int], int]]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "arith.remsi": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
_RELATIONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}
# The same for what is not negative; else nothing is told.
_UNSIGNED: Final[Mapping[str, str]] = {"arith.divui": "arith.divsi", "arith.remui": "arith.remsi"}
_CASTS: Final = frozenset({"arith.extui", "arith.extsi", "arith.index_cast"})


def initial_value(value: Value | None, depth: int = 0) -> int | None:
    """Follow constants, arithmetic and what loops start with; None where that leads to what is not known."""
    if value is None or depth > _DEEPEST:
        return None
    owner = value.owner
    if isinstance(owner, Block):
        return _argument(owner, value.index, depth)
    operands = [owner.resolve(name) for name in owner.operands]

    def operand(index: int) -> int | None:
        return initial_value(operands[index], depth + 1) if index < len(operands) else None

    if owner.name == "arith.constant":
        match = _CONSTANT.search(owner.first_line)
        return None if match is None else _integer(match[1])
    if owner.name in _CASTS:
        return operand(0)
    if owner.name == "arith.select":
        condition = operand(0)
        return None if condition is None else operand(1 if condition else 2)
    if owner.name == "arith.trunci":
        wide, bits = operand(0), value.type.removeprefix("i")
        return wide & (1 << int(bits)) - 1 if wide is not None and _WIDTH.fullmatch(bits) else None
    if owner.name in _BINARY or owner.name in _UNSIGNED:
        left, right = operand(0), operand(1)
        divides = owner.name.startswith(("arith.div", "arith.rem"))
        if (divides and right == 0) or (owner.name in _UNSIGNED and min(left or 0, right or 0) < 0):
            return None
        return _apply(_BINARY[_UNSIGNED.get(owner.name, owner.name)], left, right)
    if owner.name == "arith.cmpi":
        match = _COMPARE.search(owner.first_line)
        relation = None if match is None else _RELATIONS.get(match[1])
        return None if relation is None else _apply(relation, operand(0), operand(1))
    return None


def _argument(block: Block, index: int, depth: int) -> int | None:
    """What a loop's body or a partition gets when it is first entered."""
    around = block.parent_op
    if around is None:
        return None
    if around.name == "scf.for":
        loop = for_op.read(around)
        name = loop.lower if index == 0 else loop.iter_args[index - 1][1]
        return initial_value(around.resolve(name), depth + 1)
    if around.name == "ttg.warp_specialize":
        return initial_value(around.resolve(around.operands[index]), depth + 1)
    return None


def _apply(function: Callable[[int, int], int], left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else int(function(left, right))


def _integer(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text)
