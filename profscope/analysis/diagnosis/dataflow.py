"""What values of a loop are made of, and what they are for, by the TTGIR."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from profscope.analysis.diagnosis.ttgir_ops import (
    PRODUCTS,
    element_bytes,
    elements,
    layout_of,
    line_of,
    loop_around,
)
from profscope.instrument_passes.ir.model import Block, Op, Value

__all__ = [
    "ELEMENTWISE",
    "MOVES",
    "Unoverlapped",
    "Uses",
    "are_chained",
    "avoidable_casts",
    "conversion_lines",
    "copies_of_loops",
    "early_reductions",
    "fetch_lines",
    "maker_of",
    "promoted_products",
    "unoverlapped_products",
]

_CASTS: Final = re.compile(r"arith\.(extf|truncf|sitofp|uitofp|fptosi|fptoui)$|tt\.fp_to_fp$")
_FROM_INTEGER: Final = ("arith.sitofp", "arith.uitofp")
_BITS: Final = re.compile(r"arith\.(andi|ori|xori|shli|shrui|shrsi|muli)$")
_LOADS: Final = re.compile(r"tt\.load$|tt\.descriptor_load$")
_FROM_SHARED: Final = "ttg.local_load"
_INTO_SHARED: Final = "ttg.local_alloc"
MOVES: Final = re.compile(
    r"ttg\.(convert_layout|local_alloc|memdesc_\w+)$|tt\.(broadcast|expand_dims|reshape|trans|split|join|cat)$"
)
"""Ops that pass elements on as they are."""
_STORES: Final = re.compile(
    r"tt\.(store|descriptor_store)$|ttg\.local_store$|async_tma_copy_local_to_global$"
)
_ARITHMETIC: Final = re.compile(r"(arith|math)\.|tt\.(fp_to_fp|reduce|extern_elementwise)$")
ELEMENTWISE: Final = re.compile(r"(arith|math)\.|tt\.(fp_to_fp|splat)$")
_CONVERSION: Final = "ttg.convert_layout"
_TILE_POINTERS: Final = re.compile(r"tensor<\d+x\d+x!tt\.ptr")
_WAIT: Final = re.compile(r"warp_group_dot_wait$")
_OPERANDS: Final = 2  # of a product, in front of what it adds to
_FEW_SUMMED: Final = re.compile(r"maxNumImpreciseAcc = (\d+)")
_SUMMED: Final = re.compile(r"<\d+x(\d+)xf8")
_ORDER: Final = re.compile(r"order = \[[\d, ]+\]")
_NONE_PENDING: Final = re.compile(r"pendings\s*=\s*0")


def avoidable_casts(ops: list[Op]) -> set[int]:
    """The lines of conversions of tensors that need not be there: of what is not loaded in this loop, or of
    an operand of a product, which each program that loads it converts again. To widen what has been loaded,
    and to narrow what is stored or multiplied, is what memory and tensor cores ask for; and only integers
    have bits that can be mixed, as for random numbers."""
    uses = Uses(ops)
    lines = set()
    for op in ops:
        if not _CASTS.match(op.name) or not any(elements(each.type) for each in op.results):
            continue
        around = loop_around(op)
        source = _moved_from(op)
        is_loaded = source is not None and _is_load(source) and loop_around(source) is around
        goals = list(uses.goals(op))
        is_operand = any(PRODUCTS.search(goal.name) and not _is_mixed(goal) for goal in goals)
        is_asked_for = all(PRODUCTS.search(goal.name) or _STORES.search(goal.name) for goal in goals)
        mixes = [source] if op.name in _FROM_INTEGER else goals
        is_of_bits = any(each is not None and _BITS.match(each.name) for each in mixes)
        is_of_bits |= op.name in _FROM_INTEGER and around is None  # a position
        if is_operand if is_loaded else not (is_asked_for or is_of_bits):
            lines.add(line_of(op))
    return lines - {0}


def _is_mixed(product: Op) -> bool:
    """Whether one operand alone was converted from integers, as quantised weights are: no tensor core
    multiplies two types."""
    made = [maker_of(product, name) for name in product.operands[:_OPERANDS]]
    return sum(each is not None and each.name in ("arith.sitofp", "arith.uitofp") for each in made) == 1


def early_reductions(ops: list[Op]) -> dict[int, bool]:
    """The lines of reductions in loops that could come behind the loop: each step only adds the result to
    what the loop carries. In loops with such a reduction of values that no earlier step has a part in, these
    are all such; a recurrence needs its reductions in each step. And whether all of the loop's are of such
    values."""
    found: dict[Op, list[tuple[int, bool]]] = defaultdict(list)
    uses = Uses(ops)
    for op in ops:
        loop = loop_around(op)
        if op.name == "tt.reduce" and loop is not None and _is_accumulated(op, loop, uses):
            is_fresh = not any(_computed_by(op, name, loop)[1] for name in op.operands)
            found[loop].append((line_of(op), is_fresh))
    return {
        line: all(is_fresh for _, is_fresh in alike)
        for alike in found.values()
        if any(is_fresh for _, is_fresh in alike)
        for line, _ in alike
        if line
    }


def _is_accumulated(reduction: Op, loop: Op, uses: Uses) -> bool:
    """Whether all that uses a result in the loop combines it, element by element, with what the loop carries
    into what the loop carries on, and no step stores that."""
    left, seen, is_used = [reduction], {id(reduction)}, False
    while left:
        for user in uses.of(left.pop()):
            if id(user) in seen or loop not in user.ancestors():
                continue
            seen.add(id(user))
            is_used = True
            carried = _carried_on(user, loop)
            if carried is not None:
                if _is_stored(user, loop, carried, uses):
                    return False
                continue
            if not (ELEMENTWISE.match(user.name) or MOVES.match(user.name)) or loop_around(user) is not loop:
                return False
            left.append(user)
    return is_used


def _carried_on(op: Op, loop: Op) -> int | None:
    """Which carried value of the next step an op makes from that of this one, element by element; None if it
    makes none."""
    yielded = loop.regions[-1].entry.ops[-1]
    for index in _carried_by(op, loop):
        if maker_of(yielded, yielded.operands[index]) is op:
            return index if ELEMENTWISE.match(op.name) else None
    return None


def _is_stored(made: Op, loop: Op, index: int, uses: Uses) -> bool:
    """Whether a step stores a value that the loop carries, what it makes of it, or what it computes of
    either."""
    left = [*uses.of(made), *uses.of_argument(loop.regions[-1].entry, index + 1)]
    left = [each for each in left if loop in each.ancestors()]
    seen = {id(each) for each in left}
    while left:
        op = left.pop()
        if _STORES.search(op.name):
            return True
        users = [each for each in uses.of(op) if id(each) not in seen and loop in each.ancestors()]
        seen |= {id(each) for each in users}
        left += users
    return False


def _carried_by(op: Op, loop: Op) -> set[int]:
    """Which of a loop's carried values an op has, as they are or changed element by element."""
    found: set[int] = set()
    left, seen = [op], {id(op)}
    while left:
        user = left.pop()
        for name in user.operands:
            value = user.resolve(name)
            if value is None:
                continue
            if not isinstance(value.owner, Op):
                is_carried = value.owner.parent_op is loop and value.index > 0
                found |= {value.index - 1} if is_carried else set()
            elif id(value.owner) not in seen and loop_around(value.owner) is loop:
                seen.add(id(value.owner))
                if ELEMENTWISE.match(value.owner.name) or MOVES.match(value.owner.name):
                    left.append(value.owner)
    return found


class Unoverlapped(NamedTuple):
    """Why a product in a loop cannot overlap the next step: arithmetic on its result before another product
    is issued, or arithmetic, or another product, that makes an operand in registers.

    operand_lines: of the latter. by_casts: whether that converts types, and nothing else. widened: by line of
    a load of integers, how many times as many bytes it would load in the type that the product multiplies.
    """

    line: int
    operand_lines: set[int]
    by_casts: bool
    widened: dict[int, float]


def unoverlapped_products(ops: list[Op]) -> list[Unoverlapped]:
    """Products of which others in the same step are made are left out: those wait for them in any order. But
    (x a) b with the same b in each step is as well the sum of all x a times b, behind the loop."""
    uses = Uses(ops)
    products: dict[Op, list[Op]] = defaultdict(list)
    for op in ops:
        loop = loop_around(op)
        if PRODUCTS.search(op.name) and loop is not None:
            products[loop].append(op)
    found = []
    for loop, inside in products.items():
        made_by = {op: _operands_of(op, loop) for op in inside}
        if any(PRODUCTS.search(each.name) for made in made_by.values() for each in made):
            late = [op for op in inside if _could_be_behind(op, loop) and line_of(op)]
            found += [Unoverlapped(line_of(op), set(), False, {}) for op in late]
            continue
        for op, made in made_by.items():
            waits = [
                each for each in uses.of(op) if _NONE_PENDING.search(str(each)) and loop_around(each) is loop
            ]
            goals = (goal for wait in waits for goal in uses.goals(wait))
            of_result = [goal for goal in goals if _is_arithmetic(goal) and not _is_stored_as(goal, uses)]
            of_operand = [each for each in made if _is_arithmetic(each)]
            if (of_result or of_operand) and line_of(op):
                by_casts = all(_CASTS.match(each.name) for each in of_result + of_operand)
                lines = {line_of(each) for each in of_operand} - {0}
                widened = dict(_widened(each) for each in of_operand if each.name in _FROM_INTEGER)
                found.append(Unoverlapped(line_of(op), lines, by_casts, widened))
    return found


def _is_stored_as(cast: Op, uses: Uses) -> bool:
    """Whether it only brings a result to the type in which it is stored."""
    goals = list(uses.goals(cast)) if _CASTS.match(cast.name) else []
    return bool(goals) and all(_STORES.search(goal.name) for goal in goals)


def _widened(cast: Op) -> tuple[int, float]:
    """The line of what a conversion converts, and how many times as many bytes the result has."""
    source = _moved_from(cast)
    times = element_bytes(cast.results[0].type) / element_bytes(cast.operand_types[0])
    return (0 if source is None else line_of(source)), times


def are_chained(ops: list[Op]) -> bool:
    """Whether a product in a loop multiplies what another product of the step has made, as in attention."""
    products = ((op, loop_around(op)) for op in ops if PRODUCTS.search(op.name))
    made = (each for op, loop in products if loop is not None for each in _operands_of(op, loop))
    return any(PRODUCTS.search(each.name) for each in made)


def _operands_of(product: Op, loop: Op) -> list[Op]:
    """The ops of the loop that compute what it multiplies."""
    return [each for name in product.operands[:_OPERANDS] for each in _computed_by(product, name, loop)[0]]


def _could_be_behind(product: Op, loop: Op) -> bool:
    """Whether it multiplies another product of the step by what is the same in all steps."""
    first, second = product.operands[:_OPERANDS]
    for made, other in ((first, second), (second, first)):
        is_fixed = _computed_by(product, other, loop) == ([], False)
        if is_fixed and _is_product(product, made, loop):
            return True
    return False


def _is_product(user: Op, name: str, loop: Op) -> bool:
    """Whether a value is the result of a product in the loop, in another type or place."""
    value = user.resolve(name)
    while value is not None and isinstance(value.owner, Op) and loop in value.owner.ancestors():
        op = value.owner
        if PRODUCTS.search(op.name):
            return True
        if not (MOVES.match(op.name) or _CASTS.match(op.name) or _WAIT.search(op.name)):
            return False
        value = op.resolve(op.operands[value.index])
    return False


def promoted_products(ops: list[Op]) -> dict[int, int]:
    """By line, how many products of float8 are summed by the tensor cores, where fewer than a step has: these
    sums are added in float32."""
    found = {}
    for op in ops:
        if PRODUCTS.search(op.name) and loop_around(op) is not None:
            few, summed = _FEW_SUMMED.search(str(op)), _SUMMED.search(op.operand_types[0])
            if few and summed and 0 < int(few[1]) <= int(summed[1]):
                found[line_of(op)] = int(few[1])
    return found


def conversion_lines(ops: list[Op]) -> dict[int, int]:
    """The lines of layout conversions in loops, and of those of data that was converted before: one brings it
    from the layout of its loads to that of its stores. And where the source asks for them: at a transposition
    that has the layout of one side, if there is one. At the line of a reduction, which exchanges data, too,
    only those of a tensor as large as the one that it reduces."""
    reduced: dict[int, int] = defaultdict(int)
    turned: dict[tuple[Op | None, str], int] = {}
    for op in ops:
        if op.name == "tt.reduce":
            reduced[line_of(op)] = max(reduced[line_of(op)], *(elements(each) for each in op.operand_types))
        elif op.name == "tt.trans":
            turned |= {(loop_around(op), _layout(each.type)): line_of(op) for each in op.results}
    found = {}
    uses = Uses(ops)
    for op in ops:
        stored = _stored_by(op)
        is_moved = op.name == _CONVERSION and not _brings_operand(op, uses) and not _turns(op, uses)
        is_conversion = is_moved or stored is not None
        if is_conversion and line_of(op) and (loop_around(op) is not None or _is_converted_again(op)):
            stored = stored or op
            value, source = op.results[0], stored.resolve(stored.operands[0])
            if elements(value.type) >= reduced[line_of(op)]:
                sides = [
                    (loop_around(op), _layout(each.type)) for each in (value, source) if each is not None
                ]
                found[line_of(op)] = next((turned[side] for side in sides if side in turned), line_of(op))
    return found


def _brings_operand(conversion: Op, uses: Uses) -> bool:
    """Whether it brings what was loaded to the product that multiplies it."""
    made, goals = _moved_from(conversion), list(uses.goals(conversion))
    is_multiplied = bool(goals) and all(PRODUCTS.search(goal.name) for goal in goals)
    return made is not None and _is_load(made) and is_multiplied


def _turns(conversion: Op, uses: Uses) -> bool:
    """Whether it brings what a step loads along one axis to what it stores along another one: accesses of
    neighbours ask for that."""
    value = conversion.resolve(conversion.operands[0])
    loop = loop_around(conversion)
    if value is None or loop is None:
        return False
    before, after = (
        _ORDER.search(layout_of(conversion, each.type)) for each in (value, conversion.results[0])
    )
    if before is None or after is None or before[0] == after[0]:
        return False
    made, is_carried = _computed_by(conversion, conversion.operands[0], loop)
    goals: list[Op] = []
    left, seen = [conversion], {id(conversion)}
    while left:
        for user in uses.goals(left.pop()):
            if id(user) not in seen:
                seen.add(id(user))
                (left if ELEMENTWISE.match(user.name) else goals).append(user)
    is_loaded = any(_is_load(each) for each in made) and not is_carried
    return is_loaded and bool(goals) and all(_STORES.search(goal.name) for goal in goals)


def _stored_by(op: Op) -> Op | None:
    """Of a read from shared memory the op that has put a product there, which was in registers already. What
    was loaded and copied has to come to where it is multiplied: that is no change of layout."""
    made = _moved_from(op) if op.name == _FROM_SHARED else None
    loop = None if made is None else loop_around(made)
    if made is None or loop is None or _is_load(made):
        return None
    found = [made, *(each for name in made.operands for each in _computed_by(made, name, loop)[0])]
    if not any(PRODUCTS.search(each.name) for each in found):
        return None
    while op.name != _INTO_SHARED:
        value = op.resolve(op.operands[0])
        if value is None or not isinstance(value.owner, Op):
            return None
        op = value.owner
    return op


def _is_load(op: Op) -> bool:
    return bool(_LOADS.match(op.name)) or (op.name == _FROM_SHARED and _stored_by(op) is None)


def _is_converted_again(conversion: Op) -> bool:
    """Whether its data comes from another conversion of at least as much, and not from a product, too, whose
    layout what it is added to must have."""
    size = elements(conversion.results[0].type)
    left, seen, is_again = [conversion], {conversion}, False
    while left:
        op = left.pop()
        for name in op.operands:
            value = op.resolve(name)
            if value is None or not isinstance(value.owner, Op) or value.owner in seen:
                continue
            if any(PRODUCTS.search(each.name) for each in (value.owner, *value.owner.walk())):
                return False
            is_again |= value.owner.name == _CONVERSION and elements(value.type) >= size
            if not _is_load(value.owner):
                left.append(value.owner)
            seen.add(value.owner)
    return is_again


def fetch_lines(ops: list[Op]) -> set[int]:
    """The lines that bring operands of products from shared memory to registers."""
    found = set()
    for product in ops:
        if not PRODUCTS.search(product.name):
            continue
        left = [(product, name) for name in product.operands[:_OPERANDS]]
        while left:
            user, name = left.pop()
            value = user.resolve(name)
            if value is not None and isinstance(value.owner, Op):
                op = value.owner
                if op.name in (_FROM_SHARED, _CONVERSION):
                    found.add(line_of(op))
                if MOVES.match(op.name) or _CASTS.match(op.name):
                    left += [(op, each) for each in op.operands[:1]]
    return found - {0}


def copies_of_loops(ops: list[Op]) -> list[set[int]]:
    """Of each loop the lines of its copies of tiles from global to shared memory. A vector has fewer elements
    than the CTA has lanes, of which the compiler then masks the others off."""
    found: dict[Op, set[int]] = defaultdict(set)
    for op in ops:
        loop = loop_around(op)
        is_copy = op.name == "ttg.async_copy_global_to_local" and _TILE_POINTERS.search(str(op))
        if is_copy and loop is not None:
            found[loop].add(line_of(op))
    return list(found.values())


def _layout(kind: str) -> str:
    return kind.partition(", ")[2]


def _is_arithmetic(op: Op) -> bool:
    """Of tensors of floating point."""
    is_float = any(elements(each.type) and re.search(r"x(f|bf)\d", each.type) for each in op.results)
    return is_float and bool(_ARITHMETIC.match(op.name))


class Uses:
    """Who uses the results of ops."""

    def __init__(self, ops: list[Op]) -> None:
        self._of: dict[int, list[Op]] = defaultdict(list)
        self._of_argument: dict[tuple[int, int], list[Op]] = defaultdict(list)
        for op in ops:
            for name in op.operands:
                value = op.resolve(name)
                if value is None:
                    continue
                if isinstance(value.owner, Op):
                    self._of[id(value.owner)].append(op)
                else:
                    self._of_argument[id(value.owner), value.index].append(op)

    def of(self, op: Op) -> list[Op]:
        return self._of[id(op)]

    def of_argument(self, block: Block, index: int) -> list[Op]:
        return list(self._of_argument[id(block), index])

    def goals(self, op: Op) -> Iterator[Op]:
        """The ops that use a result, or what is the same in another place or shape."""
        left, seen = [op], {id(op)}
        while left:
            for user in self.of(left.pop()):
                if id(user) not in seen:
                    seen.add(id(user))
                    if MOVES.match(user.name):
                        left.append(user)
                    else:
                        yield user


def _moved_from(op: Op) -> Op | None:
    """The op that makes the first operand, in another place or shape."""
    return maker_of(op, op.operands[0]) if op.operands else None


def maker_of(user: Op, name: str) -> Op | None:
    """The op that makes a value, in another place or shape."""
    value = user.resolve(name)
    while value is not None and isinstance(value.owner, Op):
        op = value.owner
        if not MOVES.match(op.name):
            return op
        value = op.resolve(op.operands[0]) if op.operands else None
    return None


def _computed_by(user: Op, name: str, loop: Op) -> tuple[list[Op], bool]:
    """The ops of a loop that a value is computed by, back to what is loaded, and whether a value of the step
    before is among what it is computed from."""
    found: list[Op] = []
    carried = False
    left, seen = [(user, name)], set()
    while left:
        op, used = left.pop()
        value: Value | None = op.resolve(used)
        if value is None or (id(value.owner), value.index) in seen:
            continue
        owner = value.owner
        seen.add((id(owner), value.index))
        if not isinstance(owner, Op):
            carried |= owner.parent_op is loop and value.index > 0
        elif loop in owner.ancestors():
            found.append(owner)
            if not _is_load(owner):
                left += [(owner, each) for each in owner.operands]
    return found, carried
