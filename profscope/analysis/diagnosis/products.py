"""Products of matrices that are written as multiplications and sums."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from instrument_passes.ir.model import Block, Op
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.ttgir_ops import line_of, shape

__all__ = ["SummedProducts", "summed_products"]

_THROUGH: Final = re.compile(
    r"arith\.(extf|truncf|sitofp|uitofp|mulf|select)$|tt\.(broadcast|expand_dims|reshape|trans|fp_to_fp)$|"
    r"ttg\.convert_layout$"
)
"""Ops through which an element of a product stays one."""
_LOAD: Final = "tt.load"
_ADDING: Final = ("arith.addf", "scf.yield")  # what uses a sum that goes on
_FACTORS: Final = 2
_CASTS: Final = re.compile(r"arith\.(extf|sitofp|uitofp)$|tt\.fp_to_fp$")


class SummedProducts(NamedTuple):
    """The lines of multiplications whose results are summed, by a reduction or by additions, with the lines
    of these sums; and the lines that convert and load what is multiplied. Each factor of a product of
    matrices lacks an axis that the other one has. With one such axis it is a matrix times a vector: each
    element is multiplied once."""

    sums: set[int]
    casts: set[int]
    loads: set[int]


def summed_products(facts: KernelFacts) -> SummedProducts:
    sums: set[int] = set()
    casts: set[int] = set()
    loads: set[int] = set()
    read = _read_sums([op for op, _, _ in facts.located_ops])
    for op, line, _ in facts.located_ops:
        if not _is_sum(op) or id(op) in read:
            continue
        made = _made_of(op)
        products = [each for each in made if each.name == "arith.mulf"]
        made += [each for product in products for each in _squared_difference(product, op)]
        broadcast = {axis for each in made if each.name == "tt.broadcast" for axis in _added_axes(each)}
        if not products or len(broadcast) < _FACTORS:
            continue
        sums |= {line, *map(line_of, products)}
        casts |= {line_of(each) for each in made if _CASTS.match(each.name)}
        loads |= {line_of(each) for each in made if each.name == _LOAD}
    return SummedProducts(sums - {0}, casts - {0}, loads - {0})


def _read_sums(ops: list[Op]) -> set[int]:
    """The ids of additions whose sums something reads before all is added, as each step of a recurrence reads
    its state: no single product of matrices gives it what it reads."""
    read: set[int] = set()
    for user in ops:
        if user.name in _ADDING:
            continue
        for name in user.operands:
            value = user.resolve(name)
            if value is not None and isinstance(value.owner, Op) and value.owner.name == "arith.addf":
                read.add(id(value.owner))
    return read


def _squared_difference(product: Op, total: Op) -> list[Op]:
    """Of (x - y)**2, summed by a loop: x and y, and what they are made of. It is x**2 + y**2 less 2 * x * y,
    whose sum is a product of matrices."""
    first, second = (product.resolve(name) for name in product.operands[:2])
    owner = None if first is None or first != second else first.owner
    if not isinstance(owner, Op) or owner.name != "arith.subf":
        return []
    added = [total.resolve(name) for name in total.operands]
    is_carried = any(value is not None and isinstance(value.owner, Block) for value in added)
    return _made_of(owner) if is_carried or total.name == "tt.reduce" else []


def _added_axes(broadcast: Op) -> set[int]:
    """The axes along which a broadcast repeats its operand."""
    before, after = (shape(kind) for kind in (broadcast.operand_types[0], broadcast.results[0].type))
    return {axis for axis, (one, all_of) in enumerate(zip(before, after, strict=True)) if one != all_of}


def _is_sum(op: Op) -> bool:
    if op.name == "tt.reduce":
        return any(each.name == "arith.addf" for each in op.regions[0].entry.ops)
    return op.name == "arith.addf" and any("x" in each.type for each in op.results)


def _made_of(op: Op) -> list[Op]:
    """The ops that an op's operands are made by, as far as elements stay the same ones, back to loads."""
    found: list[Op] = []
    left = [(op, name) for name in op.operands]
    while left:
        user, name = left.pop()
        value = user.resolve(name)
        owner = None if value is None else value.owner
        if not isinstance(owner, Op) or owner in found:
            continue
        if _THROUGH.match(owner.name):
            found.append(owner)
            left += [(owner, each) for each in owner.operands]
        elif owner.name == _LOAD:
            found.append(owner)
    return found
