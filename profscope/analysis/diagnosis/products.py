"""Products of matrices: those that are written as multiplications and sums, and what larger tiles bring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.dataflow import Uses, are_chained, maker_of
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.gains import Without
from profscope.analysis.diagnosis.ttgir_ops import (
    PRODUCTS,
    copies_into,
    element_bytes,
    grid_axes,
    is_buffer,
    line_of,
    shape,
)
from profscope.instrument_passes.ir.model import Block, Op
from profscope.instrument_passes.ir.signature import element_type

__all__ = [
    "GROWS",
    "Split",
    "SummedProducts",
    "Tile",
    "lines_of_parts",
    "split_products",
    "summed_products",
    "tile_of",
    "without_small_tiles",
]

_THROUGH: Final = re.compile(
    r"arith\.(extf|truncf|sitofp|uitofp|mulf|select)$|tt\.(broadcast|expand_dims|reshape|trans|fp_to_fp)$|"
    r"ttg\.convert_layout$"
)
"""Ops through which an element of a product stays one."""
_LOAD: Final = "tt.load"
_BROADCAST: Final = "tt.broadcast"
_CONSTANTS: Final = ("tt.splat", "arith.constant")
_NUMBERS: Final = re.compile(r"\d+")
_ADDING: Final = ("arith.addf", "scf.yield")  # what uses a sum that goes on
_CASTS: Final = re.compile(r"arith\.(extf|sitofp|uitofp)$|tt\.fp_to_fp$")
_ROUNDS: Final = re.compile(r'tt\.elementwise_inline_asm "cvt\.rn')
_WIDENS: Final = "arith.extf"
_NARROW: Final = 2  # bytes of a type that tensor cores multiply without loss
_FACTORS: Final = 2  # operands of a product, in front of what it adds to
_TILE: Final = re.compile(r"tensor<(\d+)x(\d+)x[a-z]")
GROWS: Final = ("l1", "lsu", "shared", "issue", "alu", "fma")
"""Resources whose use grows with the bytes that a product loads."""


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
    read, lacked = _read_sums(facts.ttgir_ops), _lacked_axes(facts.ttgir_ops)
    for op, line, _ in facts.located_ops:
        if not _is_sum(op) or id(op) in read:
            continue
        made = _made_of(op)
        products = [each for each in made if each.name == "arith.mulf"]
        squares = {each: _squared_difference(each, op) for each in products}
        made += [each for square in squares.values() if square is not None for each in _made_of(square)]
        if not any(_is_of_matrices(squares[each] or each, lacked) for each in products):
            continue
        sums |= {line, *map(line_of, products)}
        casts |= {line_of(each) for each in made if _CASTS.match(each.name)}
        loads |= {line_of(each) for each in made if each.name == _LOAD}
    return SummedProducts(sums - {0}, casts - {0}, loads - {0})


def _read_sums(ops: list[Op]) -> set[int]:
    """The ids of additions whose sums something reads before all is added, as each step of a recurrence reads
    its state: no single product of matrices gives it what it reads."""
    uses = Uses(ops)
    sums = (op for op in ops if op.name == "arith.addf")
    read = {id(each) for each in sums if any(user.name not in _ADDING for user in uses.of(each))}
    for body in (loop.regions[0].entry for loop in ops if loop.name == "scf.for"):
        for index, name in enumerate(body.ops[-1].operands):
            value = body.ops[-1].resolve(name)
            if value is not None and any(
                user is not value.owner for user in uses.of_argument(body, index + 1)
            ):
                read.add(id(value.owner))
    return read


def _squared_difference(product: Op, total: Op) -> Op | None:
    """Of (x - y)**2, summed by a loop, x - y. It is x**2 + y**2 less 2 * x * y, whose sum is a product of
    matrices."""
    first, second = (product.resolve(name) for name in product.operands[:2])
    owner = None if first is None or first != second else first.owner
    if not isinstance(owner, Op) or owner.name != "arith.subf":
        return None
    added = [total.resolve(name) for name in total.operands]
    is_carried = any(value is not None and isinstance(value.owner, Block) for value in added)
    return owner if is_carried or total.name == "tt.reduce" else None


def _is_of_matrices(op: Op, lacked: Mapping[Op, set[int]]) -> bool:
    """Whether each operand lacks an axis that the other one has."""
    first, second = (_of_operand(op, name, lacked) for name in op.operands[:2])
    return bool(first - second) and bool(second - first)


def _lacked_axes(ops: list[Op]) -> dict[Op, set[int]]:
    """By op the axes along which all elements of its result are the same, as it was broadcast along them."""
    found: dict[Op, set[int]] = {}
    for op in ops:
        sides = shape(op.results[0].type) if op.results else []
        if op.name in _CONSTANTS:
            found[op] = set(range(len(sides)))
        elif sides and _THROUGH.match(op.name) and op.name != "tt.reshape":
            given = op.operands[1:] if op.name == "arith.select" else op.operands
            common = set.intersection(*(_of_operand(op, each, found) for each in given))
            found[op] = _moved_axes(op, common, sides)
    return found


def _of_operand(op: Op, name: str, lacked: Mapping[Op, set[int]]) -> set[int]:
    value = op.resolve(name)
    return lacked.get(value.owner, set()) if value is not None and isinstance(value.owner, Op) else set()


def _moved_axes(op: Op, lacked: set[int], sides: list[int]) -> set[int]:
    """Those of its result, from those of its operands."""
    before = shape(op.operand_types[0])
    if op.name == _BROADCAST and len(before) == len(sides):
        return lacked | {axis for axis, side in enumerate(sides) if side != before[axis]}
    if op.name == "tt.expand_dims":
        new = op.integer("axis") or 0
        return {axis + (axis >= new) for axis in lacked}
    if op.name == "tt.trans":
        order = [int(each) for each in _NUMBERS.findall(op.attributes.get("order", "").partition(":")[2])]
        return {axis for axis, source in enumerate(order) if source in lacked}
    return lacked


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


class Split(NamedTuple):
    """How many products take the place of one, whether one of what was loaded gives the same result, and the
    lines that take operands apart."""

    products: float
    was_narrow: bool
    lines: frozenset[int]


def split_products(ops: list[Op]) -> dict[int, Split]:
    """By line, products of float32 that are taken apart: each operand is rounded to what tensor cores
    multiply (TF32, or bfloat16), the rest is another operand, and several products are added
    (`input_precision` of tf32x3, bf16x3 or bf16x6). Of these one multiplies no rest."""
    found: dict[int, Split] = {}
    by_call: dict[str, list[tuple[int, list[Op]]]] = {}
    for op in ops:
        if PRODUCTS.search(op.name):
            rests = (_rest_of(op, name) for name in op.operands[:_FACTORS])
            known = [each for each in rests if each is not None]
            by_call.setdefault(str(op.loc), []).append((line_of(op), known))
    for products in by_call.values():
        line = products[0][0]
        rests_of = [rest for _, each in products for rest in each]
        whole = sum(not each for _, each in products)
        if line and rests_of and whole and len(products) > whole:
            kinds = {_widened_from(rest) for rest in rests_of}
            is_narrow = len(kinds) == 1 and kinds != {""}
            lines = frozenset({line, *map(line_of, rests_of)})
            found[line] = Split(len(products) / whole, is_narrow, lines)
    return found


def lines_of_parts(split: Mapping[int, Split]) -> set[int]:
    """All lines that take operands apart."""
    return {line for each in split.values() for line in each.lines}


def _rest_of(product: Op, name: str) -> Op | None:
    """If an operand is what rounding a value has left, the op that subtracts."""
    rest = _maker(product, name)
    while rest is not None and rest.name != "arith.subf":  # bfloat16 of it
        if rest.name != "arith.truncf":
            return None
        rest = _maker(rest, rest.operands[0])
    if rest is None:
        return None
    value, rounded = (_maker(rest, each) for each in rest.operands)
    is_rounded = False
    while rounded is not None and rounded is not value:
        is_rounded |= rounded.name == "arith.truncf" or bool(_ROUNDS.search(str(rounded)))
        if not (rounded.name in ("arith.extf", "arith.truncf") or _ROUNDS.search(str(rounded))):
            return None
        rounded = _maker(rounded, rounded.operands[0])
    return rest if is_rounded and value is not None and rounded is value else None


def _widened_from(rest: Op) -> str:
    """The type of two bytes that what is taken apart had before; "" if it had none."""
    value = _maker(rest, rest.operands[0])
    if value is None or value.name != _WIDENS:
        return ""
    kind = value.operand_types[0]
    return element_type(kind) if element_bytes(kind) == _NARROW else ""


def _maker(user: Op, name: str) -> Op | None:
    """The op that makes a value, also through shared memory that is filled as it is allocated; of what a
    loop's copies fill, the load from it."""
    made = maker_of(user, name)
    while made is not None and made.name == "ttg.local_load":
        source = maker_of(made, made.operands[0])
        if source is None:
            break
        made = source
    return made


class Tile(NamedTuple):
    """Rows and columns of the largest product, in a loop if one is there, 0 if there is none; and whether
    other programs multiply the same columns, or rows, by others: only then could there be more of them."""

    rows: int
    columns: int
    more_rows: bool
    more_columns: bool


def tile_of(facts: KernelFacts) -> Tile:
    found = [
        (inside, int(tile[1]), int(tile[2]), op)
        for op, _, inside in facts.located_ops
        if PRODUCTS.search(op.name) and (tile := _TILE.match(op.results[0].type))
    ]
    if not found:
        return Tile(0, 0, False, False)
    _, rows, columns, product = max(found, key=lambda tile: (tile[0], tile[1] * tile[2]))
    of_rows, of_columns = (_axes_of_operand(facts, product, side) for side in (0, 1))
    if not of_rows and not of_columns:  # by descriptors
        return Tile(rows, columns, True, True)
    more_rows = bool(of_rows - _axes_of_operand(facts, product, 1, alone=True))
    more_columns = bool(of_columns - _axes_of_operand(facts, product, 0, alone=True))
    return Tile(rows, columns, more_rows, more_columns)


def _axes_of_operand(facts: KernelFacts, product: Op, side: int, *, alone: bool = False) -> set[str]:
    """The axes of the grid by which programs load the rows (side 0) or columns of a product from different
    places; alone: each program along them from its own."""
    axes: set[str] = set()
    left, seen = [(product, product.operands[side])], set()
    while left:
        user, asked = left.pop()
        value = user.resolve(asked)
        owner = None if value is None else value.owner
        if value is None or not isinstance(owner, Op) or id(owner) in seen:
            continue
        seen.add(id(owner))
        if owner.name == _LOAD:
            axes |= grid_axes(owner, owner.operands[0], alone)
        elif is_buffer(owner):
            for copy in copies_into(owner, facts.ttgir_ops):
                axes |= grid_axes(copy, copy.operands[0], alone)
        else:
            is_product = PRODUCTS.search(owner.name)
            ends = [region.entry.ops[-1] for region in owner.regions]  # of branches and loops
            left += [(end, end.operands[value.index]) for end in ends if value.index < len(end.operands)]
            left += [
                (owner, each) for each in (owner.operands[side : side + 1] if is_product else owner.operands)
            ]
    return axes


def without_small_tiles(facts: KernelFacts) -> Without:
    """A product of M by N elements loads M + N for each column of K, so 1 / M + 1 / N for a multiplication.
    Sides shorter than those of good products (64 rows, if a product multiplies what another has made, as in
    attention) could be as long if other tiles load the same again: the one
    operand's bytes are asked for several times as often as DRAM sends any. What is loaded once, stays, and so
    does a product that no loop adds up."""
    rows, columns, more_rows, more_columns = tile_of(facts)
    side_of_good = thresholds.WGMMA_SIDE if are_chained(facts.ttgir_ops) else thresholds.TILE_SIDE
    asked = 32.0 * facts.sectors("LDG", "LDGSTS")
    read = facts.counters.get("dram_read", 0.0)
    if not asked or not facts.has(PRODUCTS.pattern, loop=True):
        return Without(0.0)
    longer_rows, longer_columns = (
        max(side, side_of_good)
        if more and asked * other / (rows + columns) >= thresholds.REREAD * read
        else side
        for side, other, more in ((rows, columns, more_rows), (columns, rows, more_columns))
    )
    left = (1 / longer_rows + 1 / longer_columns) / (1 / rows + 1 / columns)
    again = max(0.0, 1 - read / asked) * asked / facts.l2_bytes
    return Without((1 - left) * again, dict.fromkeys(GROWS, left) | {"l2": 1 - (1 - left) * again})
