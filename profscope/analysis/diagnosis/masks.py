"""Work that is computed and thrown away, by the TTGIR: tiles that a loop masks, and loops whose results a
condition discards that was known before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from profscope.analysis.diagnosis.dataflow import Uses
from profscope.analysis.diagnosis.ttgir_ops import (
    FROM_GLOBAL,
    LOOPS,
    PRODUCTS,
    bounds_compared,
    elements,
    grid_axes,
    is_of_counter,
    is_of_outer_loop,
    is_of_program,
    line_of,
    makers_of,
)
from profscope.instrument_passes.ir.model import Op

__all__ = [
    "MaskedLoop",
    "discarded_loops",
    "discarded_products",
    "ends_of_loops",
    "masked_loop",
    "stores_whole_programs",
]

_TENSOR_MASK: Final = re.compile(r"tensor<[0-9x]+xi1")
_EQUAL: Final = re.compile(r"arith\.cmpi (eq|ne),")
_LOADS: Final = ("tt.load", "tt.descriptor_load")
_SELECT: Final = "arith.select"
_FROM_SHARED: Final = "ttg.local_load"
_SPLAT: Final = "tt.splat"
_BRANCHES: Final = ("cf.cond_br", "scf.if")
_CONSTANT: Final = "arith.constant"
_ENDS: Final = ("lower", "upper")
_UNMASKED: Final = 2  # operands of a store: where, and what
_PASSES_MASKS: Final = re.compile(r"arith\.(and|or)i$|broadcast$|expand_dims$|convert_layout$")
_LANE: Final = "tt.make_range"
_MASKED: Final = ("tt.store", "tt.atomic_rmw", *FROM_GLOBAL)
_NUMBERS: Final = ("arith.uitofp", "arith.extui")  # of a mask: what it multiplies is thrown away
_ZERO: Final = re.compile(r"dense<-?0[.0e+]*>")
_OTHER_STORES: Final = re.compile(
    r"tt\.atomic_|descriptor_(store|reduce|scatter)|async_tma_(copy_local|store|reduce)"
)


class MaskedLoop(NamedTuple):
    """line: that of the mask, else of the loop. by_data: whether it compares with what was loaded."""

    line: int
    by_data: bool


def masked_loop(ops: list[Op]) -> MaskedLoop | None:
    """The first mask that throws tiles of a loop away: it compares the loop's positions with the program's,
    and the end of the loop that it cuts off depends neither on the program nor on a loop around it. The
    program's may be loaded if they are a bound, or choose what products are for: those of another step may be
    left out. If such a mask is one of loads, too, it is another matter: lanes of loads are counted."""
    cuts = list(_cuts(ops))
    if not cuts:
        return None
    uses = Uses(ops)
    for mask, line, by_data, is_either_end in cuts:
        if not _throws_away(mask, uses) or (by_data and _masks_loads(mask, uses)):
            continue  # of loads, how many lanes that is, loads tell
        if is_either_end or _keeps_where_true(mask, uses):
            return MaskedLoop(line, by_data)
    return None


def _cuts(ops: list[Op]) -> Iterator[tuple[Op, int, bool, bool]]:
    """The masks that cut an end of a loop off which is the same for all programs; the line that is named;
    whether by what was loaded; whether it does not matter which end, as both are the same for all."""
    for loop in ops:
        if loop.name != "scf.for":
            continue
        ends = {
            end
            for end, name in zip(_ENDS, loop.operands[:2], strict=True)
            if not (is_of_program(loop, name) or is_of_outer_loop(loop, name))
        }
        if not ends:
            continue
        inside = list(loop.walk())
        has_dot = any(PRODUCTS.search(op.name) for op in inside)
        masks = [op for op in inside if op.name == _SELECT and _TENSOR_MASK.search(str(op))]
        for op in inside:
            if op.name != "arith.cmpi" or not any("xi1" in each.type for each in op.results):
                continue
            cut = bounds_compared(op, loop, has_dot or not _EQUAL.search(str(op)))
            if cut and (len(ends) > 1 or cut == ends):
                by_data = not bounds_compared(op, loop, False)
                yield op, line_of(masks[0] if masks else loop), by_data, len(ends) > 1


def _users_of_mask(mask: Op, uses: Uses) -> Iterator[tuple[Op, Op]]:
    """The ops that use a mask, alone or with others, in any shape, and which op made it so."""
    left, seen = [mask], {id(mask)}
    while left:
        made = left.pop()
        for user in uses.of(made):
            if id(user) in seen:
                continue
            seen.add(id(user))
            if _PASSES_MASKS.search(user.name):
                left.append(user)
            else:
                yield user, made


def _throws_away(mask: Op, uses: Uses) -> bool:
    """Whether anything is not used where a mask of positions is false: for one of unequal positions, where it
    is true, as it is false at a few only."""
    equal = _EQUAL.search(str(mask))
    sides = {side for user, made in _users_of_mask(mask, uses) for side in _thrown_away_by(user, made)}
    return bool(sides) if equal is None else (equal[1] == "ne") in sides


def _thrown_away_by(user: Op, mask: Op) -> set[bool]:
    """Where something is thrown away: where a mask is true, where it is false, or nowhere."""
    if user.name in _MASKED or (user.name in _NUMBERS and _is_of(user, user.operands[0], mask)):
        return {False}
    if user.name != _SELECT or not _is_of(user, user.operands[0], mask):
        return set()
    either = user.operands[1:3]
    for is_nothing in (_is_constant, _is_zero, _is_carried):
        true, false = (is_nothing(user, name) for name in either)
        if true != false:
            return {true}
    return set()


def _masks_loads(mask: Op, uses: Uses) -> bool:
    """Whether a mask is one of loads."""
    return any(user.name in FROM_GLOBAL for user, _ in _users_of_mask(mask, uses))


def _keeps_where_true(mask: Op, uses: Uses) -> bool:
    """Whether a mask chooses what goes on, and never what is thrown away."""
    is_used = False
    for user, made in _users_of_mask(mask, uses):
        if user.name == _SELECT and _is_of(user, user.operands[0], made):
            is_used = True
            if _is_constant(user, user.operands[1]):
                return False
        elif user.name not in _LOADS:
            return False
    return is_used


def _is_of(user: Op, name: str, made: Op) -> bool:
    value = user.resolve(name)
    return value is not None and value.owner is made


def _is_constant(user: Op, name: str) -> bool:
    made = _owner(user, name)
    return made is not None and made.name == _CONSTANT


def _is_zero(user: Op, name: str) -> bool:
    made = _owner(user, name)
    return made is not None and made.name == _CONSTANT and bool(_ZERO.search(str(made)))


def _is_carried(user: Op, name: str) -> bool:
    """Whether a value is what the step before has left."""
    value = user.resolve(name)
    return value is not None and not isinstance(value.owner, Op)


def ends_of_loops(ops: list[Op]) -> set[int]:
    """The lines of loads in loops whose masks depend on the loop's counter: where a loop ends, they leave out
    part of a block, of few steps more than of many. If data says where they end, any step may be left out."""
    return {
        line_of(op)
        for op in ops
        if op.name in _LOADS
        and len(op.operands) > 1
        and is_of_counter(op, op.operands[1])
        and not any(each.name in _LOADS for each in makers_of(op, op.operands[1]))
    }


def stores_whole_programs(ops: list[Op], lanes: int) -> bool:
    """Whether all masks of stores are the same for all lanes of a program, and depend on its id. Only those
    of stores of an element or more of each of so many lanes count; others must be at other lines, and no
    result may leave otherwise."""
    stores = [op for op in ops if op.name == "tt.store"]
    wide = [op for op in stores if elements(op.operand_types[0]) >= lanes]
    if any(_OTHER_STORES.search(op.name) for op in ops):
        return False
    if {line_of(op) for op in wide} & {line_of(op) for op in stores if op not in wide}:
        return False
    for op in wide:
        if len(op.operands) > _UNMASKED:
            mask = op.operands[_UNMASKED]
            makers = {each.name for each in makers_of(op, mask)}
            if _LANE in makers or not grid_axes(op, mask):
                return False
    return True


def discarded_loops(ops: list[Op]) -> Iterator[tuple[Op, Op]]:
    """Loops, and the condition by which a kernel stores something else than what they have computed: it was
    loaded, and no loop has a part in it."""
    loops = [op for op in ops if op.name in LOOPS and not any(each.name in LOOPS for each in op.ancestors())]
    stores = [op for op in ops if op.name == "tt.store"]
    for loop in loops:
        if any(op.name in ("tt.store", "tt.atomic_rmw", "tt.atomic_cas") for op in loop.walk()):
            continue
        chosen = [_chooses(store, loop) for store in stores if _is_made_of(store, store.operands[1], loop)]
        conditions = [each for each in chosen if each is not None]
        if conditions and len(conditions) == len(chosen):
            yield loop, conditions[0]


def discarded_products(ops: list[Op]) -> Iterator[Op]:
    """The ops that replace all of a product by a constant if a number says so that was loaded: the same one
    for all elements, and no branch asks for it."""
    asked = {
        made for op in ops if op.name in _BRANCHES and op.operands for made in makers_of(op, op.operands[0])
    }
    for op in ops:
        if op.name != _SELECT or not elements(op.results[0].type):
            continue
        condition, *either = (_owner(op, name) for name in op.operands[:3])
        is_number = condition is not None and condition.name == _SPLAT
        if not is_number or not any(each is not None and each.name == _CONSTANT for each in either):
            continue
        makers = list(makers_of(op, op.operands[0]))
        of_condition = {each.name for each in makers}
        if any(each in asked for each in makers if each.name in _LOADS):
            continue
        if of_condition.isdisjoint((*_LOADS, _FROM_SHARED)) or any(map(PRODUCTS.search, of_condition)):
            continue
        made = (each for name in op.operands[1:3] for each in makers_of(op, name))
        if any(PRODUCTS.search(each.name) for each in made):
            yield op


def _owner(user: Op, name: str) -> Op | None:
    value = user.resolve(name)
    return value.owner if value is not None and isinstance(value.owner, Op) else None


def _chooses(store: Op, loop: Op) -> Op | None:
    """The op that makes the condition, if what is stored is chosen by one between the loop's results and what
    the loop has no part in."""
    op: Op | None = store
    name = store.operands[1]
    while op is not None:
        op = _owner(op, name)
        if op is None or op.regions:
            return None
        if op.name == _SELECT:
            condition, first, second = op.operands[:3]
            is_one = _is_made_of(op, first, loop) != _is_made_of(op, second, loop)
            is_known = _is_loaded(op, condition) and not _is_made_of(op, condition, loop)
            return _owner(op, condition) if is_one and is_known else None
        of_loop = [each for each in op.operands if _is_made_of(op, each, loop)]
        if len(of_loop) != 1:
            return None
        name = of_loop[0]
    return None


def _makers(user: Op, name: str) -> Iterator[Op]:
    """The ops that a value is made by, not those inside of loops and branches."""
    left, seen = [(user, name)], set()
    while left:
        op, asked = left.pop()
        value = op.resolve(asked)
        owner = None if value is None else value.owner
        if isinstance(owner, Op) and id(owner) not in seen:
            seen.add(id(owner))
            yield owner
            left += [(owner, each) for each in owner.operands]


def _is_made_of(user: Op, name: str, loop: Op) -> bool:
    return any(each is loop for each in _makers(user, name))


def _is_loaded(user: Op, name: str) -> bool:
    made = list(_makers(user, name))
    return any(each.name in _LOADS for each in made) and not any(each.name in LOOPS for each in made)
