"""Questions to single ops of the TTGIR."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from profscope.instrument_passes.analyses.walk import in_loop
from profscope.instrument_passes.ir.model import Op, Value

__all__ = [
    "AXES",
    "FROM_GLOBAL",
    "LOOPS",
    "PRODUCTS",
    "adds_to",
    "arguments_of",
    "bounds_compared",
    "buffer_of",
    "copies_into",
    "differs_by_program",
    "element_bytes",
    "elements",
    "grid_axes",
    "has_constant_bounds",
    "is_buffer",
    "is_divided",
    "is_gathered",
    "is_in_loop",
    "is_looked_up",
    "is_of_counter",
    "is_of_data",
    "is_of_outer_loop",
    "is_of_program",
    "is_power_of_two",
    "is_rounded",
    "layout_of",
    "line_of",
    "loop_around",
    "makers_of",
    "makers_of_places",
    "scattered_over",
    "shape",
]

PRODUCTS: Final = re.compile(r"tt\.dot$|warp_group_dot$")
"""Products of matrices."""
_RANGE: Final = "tt.make_range"
_PROGRAM: Final = "tt.get_program_id"
AXES: Final = ("x", "y", "z")
"""Of a grid."""
FROM_GLOBAL: Final = ("tt.load", "ttg.async_copy_global_to_local")
"""Ops that load from global memory, by pointers."""
LOOPS: Final = ("scf.for", "scf.while")
_CHOICES: Final = ("scf.while", "scf.if", "cf.cond_br", "cf.switch", "tt.call")
_UNLIKE: Final = re.compile(r"tt\.(get_program_id|load|atomic_|descriptor_)|local_load|inline_asm")
_LOAD: Final = "tt.load"
_OWN: Final = re.compile(r"tt\.atomic_|elementwise_inline_asm$")  # each program may have another result
_FROM_INTEGER: Final = "tt.int_to_ptr"
_FUNCTION: Final = "tt.func"
_PRIVATE: Final = "tt.func private"
_POINTERS: Final = ("!tt.ptr", "!tt.tensordesc")
_BITS: Final = re.compile(r"x[a-z]+(\d+)\b")
_DIVISIONS: Final = re.compile(r"arith\.(div|rem)[su]i$")
_DATA: Final = re.compile(r"tt\.load$|ttg\.local_load$|tt\.dot$|warp_group_dot")
_ACCESSES: Final = re.compile(r"tt\.(load|store|atomic_\w+)$|ttg\.async_copy_global_to_local$")
_Read = tuple[Op, str]  # an op, and the name of an operand


def line_of(op: Op) -> int:
    """The innermost line in the kernel's file: of a function of another file that was inlined, where it is
    called."""
    places = [(op.loc.file, op.loc.line), *((caller.file, caller.line) for caller in op.loc.callers)]
    return next(line for file, line in places if file == places[-1][0])


def is_power_of_two(value: Value | None) -> bool:
    constant = re.search(r"(?:dense<|constant )(\d+)\b", str(value.owner)) if value is not None else None
    return constant is not None and int(constant[1]).bit_count() == 1


def shape(kind: str) -> list[int]:
    """Of a tensor type, of registers; [] for others."""
    sides = re.match(r"tensor<((?:\d+x)+)", kind)
    return [int(each) for each in sides.group(1).split("x")[:-1]] if sides else []


def element_bytes(kind: str) -> float:
    """Of an element of a tensor type; infinite if its type is not known."""
    bits = _BITS.search(kind)
    return int(bits[1]) / 8 if bits else math.inf


def elements(kind: str) -> int:
    """Of a tensor type, of registers; 0 for others."""
    sides = shape(kind)
    return math.prod(sides) if sides else 0


def adds_to(op: Op, kind: str) -> bool:
    return op.name.endswith(("tt.dot", "warp_group_dot")) and any(each.type == kind for each in op.results)


def is_in_loop(op: Op) -> bool:
    return in_loop(op.parent_op)


def loop_around(op: Op) -> Op | None:
    """The innermost loop that an op is in."""
    return next((each for each in op.ancestors() if each.name in LOOPS), None)


def bounds_compared(compared: Op, loop: Op, with_data: bool) -> set[str]:
    """Which ends of a loop a comparison cuts off: "lower", "upper", or both, if one side depends on the
    loop's counter, and the other one on the program alone; with_data: or on what the program has loaded. Of a
    difference that is compared with a constant, the sides are those of the difference."""
    less = re.search(r"cmpi [su](l|g)[te],", str(compared))
    return _cut_off(compared, loop, with_data, None if less is None else less[1] == "l")


def _cut_off(compared: Op, loop: Op, with_data: bool, less: bool | None) -> set[str]:
    """less: whether the first side is to be the smaller one; None for neither."""
    first, second = (_depends(compared, name, loop, with_data) for name in compared.operands[:2])
    if (first[0] and first[1]) or (second[0] and second[1]):
        for at, name in enumerate(compared.operands[:2]):
            value = compared.resolve(name)
            if value is not None and isinstance(value.owner, Op) and value.owner.name == "arith.subi":
                return _cut_off(value.owner, loop, with_data, less if at == 0 or less is None else not less)
        return set()
    is_first = first[0] and second[1]
    if not is_first and not (first[1] and second[0]):
        return set()
    if less is None:
        return {"lower", "upper"}
    return {"upper" if less is is_first else "lower"}


def _depends(user: Op, name: str, loop: Op, with_data: bool) -> tuple[bool, bool]:
    """Whether a value is a position that the counter of a loop moves, and whether it depends on the program's
    id."""
    yielded = loop.regions[0].entry.ops[-1]

    def positions(op: Op) -> Iterable[_Read]:
        return () if op.regions or op.name == _LOAD else _read_by(op)

    counter = program = False
    left, seen = [(user, name)], set()
    while left:
        at, asked = left.pop()
        for value in _made_of(at, [asked], positions):
            if isinstance(value.owner, Op):
                program |= value.owner.name == _PROGRAM
            elif value.owner.parent_op is loop and value.index == 0:
                counter = True
            elif value.owner.parent_op is loop and value.index not in seen:
                seen.add(value.index)  # carried: a counter of its own, or what a pipelined step has computed
                left.append((yielded, yielded.operands[value.index - 1]))
                counter |= _counts(value, yielded)
    if with_data and not counter:
        made = _made_of(user, [name], lambda op: () if op.regions else _read_by(op))
        program |= any(isinstance(each.owner, Op) and each.owner.name == _PROGRAM for each in made)
    return counter, program


def _counts(carried: Value, yielded: Op) -> bool:
    """Whether each step adds something to a value that a loop carries."""
    value = yielded.resolve(yielded.operands[carried.index - 1])
    if value is None or not isinstance(value.owner, Op) or value.owner.name != "arith.addi":
        return False
    added = [value.owner.resolve(each) for each in value.owner.operands]
    return any(
        each is not None and each.owner is carried.owner and each.index == carried.index for each in added
    )


def is_gathered(op: Op) -> bool:
    """Whether the address was computed from what was loaded, or by a division."""
    made = _makers_of_address(op)
    return any(each.name == _LOAD or _DIVISIONS.match(each.name) for each in made)


def is_looked_up(op: Op) -> bool:
    """Whether the address was computed from what was loaded."""
    return any(each.name == _LOAD for each in _makers_of_address(op))


def scattered_over(access: Op) -> set[int]:
    """The positions of the kernel's arguments that an access goes to where the data of each lane say, and
    nothing else: neither a position in the tile, nor a step of a loop; none if it does not."""
    found: set[int] = set()
    is_loaded = False

    def up_to_data(op: Op) -> Iterable[_Read]:
        return () if _DATA.search(op.name) else _read_by(op)

    for value in _made_of(access, access.operands[:1], up_to_data):
        owner = value.owner
        if isinstance(owner, Op):
            is_loaded |= bool(_DATA.search(owner.name)) and elements(value.type) > 1
            if owner.name == _RANGE or owner.regions:
                return set()
        elif owner.parent_op is None or owner.parent_op.name != _FUNCTION:
            return set()
        elif value.type.startswith(_POINTERS):
            found.add(value.index)
    return found if is_loaded else set()


def layout_of(user: Op, kind: str) -> str:
    """What the module says of the layout of a tensor type that an op has; "" of others."""
    return user.module.aliases.get("#" + kind.rpartition("#")[2].rstrip(">"), "")


def is_divided(op: Op) -> bool:
    """Whether the address was computed by a division of tensors."""
    return any(_DIVISIONS.match(each.name) and shape(each.results[0].type) for each in _makers_of_address(op))


def is_rounded(op: Op) -> bool:
    """Whether the address of each lane was computed as a number that is no integer: a place in a picture."""
    return any(each.name == "arith.fptosi" and shape(each.results[0].type) for each in _makers_of_address(op))


def _makers_of_address(op: Op) -> list[Op]:
    values = _made_of(op, op.operands[:1], _read_by)
    return [value.owner for value in values if isinstance(value.owner, Op)]


def is_buffer(op: Op) -> bool:
    """Whether it allocates shared memory that others fill."""
    return op.name == "ttg.local_alloc" and not op.operands


def buffer_of(user: Op, name: str) -> Op | None:
    """The buffer that an operand is a part of; None if it is of none that others fill."""
    while (value := user.resolve(name)) is not None and isinstance(value.owner, Op):
        user = value.owner
        if is_buffer(user):
            return user
        if user.name == "ttg.local_alloc" or not user.operands:
            return None
        name = user.operands[0]
    return None


def copies_into(buffer: Op | None, ops: Iterable[Op]) -> list[Op]:
    """Those of the ops that copy from global memory into a buffer."""
    if buffer is None:
        return []
    copies = (op for op in ops if op.name == "ttg.async_copy_global_to_local")
    return [copy for copy in copies if buffer_of(copy, copy.operands[1]) is buffer]


def grid_axes(user: Op, name: str, alone: bool = False) -> set[str]:
    """The axes of the grid that a value depends on; all, if it is one that each program gets for itself, as
    of a counter. alone: so that each program along them has another one, as far as neither divisions nor what
    is loaded say otherwise."""
    owners = list(makers_of(user, name, alone))
    if any(_OWN.search(each.name) for each in owners):
        return set(AXES)
    programs = [each for each in owners if each.name == _PROGRAM]
    return {str(each).partition(_PROGRAM + " ")[2][:1] for each in programs}


def makers_of(user: Op, name: str, alone: bool = False) -> Iterator[Op]:
    """The ops that a value depends on, each once, also through loops and branches. alone: see `grid_axes`."""
    for value in _sources(user, name, alone):
        if isinstance(value.owner, Op):
            yield value.owner


def arguments_of(access: Op) -> set[int]:
    """The positions of the kernel's arguments that an access reads from or writes to, and of those whose
    values its address depends on; none if some pointer is not an argument. Names do not tell: an argument may
    have that of a variable that it is assigned to."""
    found: set[int] = set()
    for value in _sources(access, access.operands[0], alone=False):
        owner = value.owner
        if isinstance(owner, Op):
            if owner.name == _FROM_INTEGER:
                return set()
        elif (function := owner.parent_op) is not None and function.name == _FUNCTION:
            if owner is not function.regions[0].entry or _PRIVATE in function.first_line:
                return set()
            if value.type.startswith(_POINTERS):
                found.add(value.index)
    return found


def _sources(user: Op, name: str, alone: bool) -> Iterator[Value]:
    """The values that a value depends on, itself included, each once, also through loops and branches. alone:
    not what divisions divide, nor what loads load by."""
    left, seen = [(user, name)], set()
    while left:
        op, asked = left.pop()
        value = op.resolve(asked)
        if value is None or (id(value.owner), value.index) in seen:
            continue
        owner = value.owner
        seen.add((id(owner), value.index))
        yield value
        if isinstance(owner, Op):
            if not (alone and (owner.name == _LOAD or _DIVISIONS.match(owner.name))):
                left += _read_by(owner)
                left += chain(*map(_read_by, owner.walk())) if owner.regions else ()
        elif (loop := owner.parent_op) is not None and loop.name == "scf.for":
            carried = value.index - 1
            names = loop.operands[:3:2] if carried < 0 else [loop.operands[3 + carried]]
            left += [(loop, each) for each in names]
            if carried >= 0:
                last = owner.ops[-1]
                left.append((last, last.operands[carried]))
        elif loop is not None and loop.name == "scf.while":
            left += chain(_read_by(loop), *map(_read_by, loop.walk()))


def is_of_program(loop: Op, *bounds: str) -> bool:
    """Whether a bound of a loop, one of these if any are given, depends on the program's id."""
    return _bounds(loop, bounds)[0]


def differs_by_program(op: Op) -> bool:
    """Whether programs may do more or less than others at an op: at a branch of the source, or in a loop
    whose number of steps depends on the program's id, or on data. From x to x plus n there are n steps."""
    if op.name in _CHOICES:  # those that recording adds are at the kernel's own line
        return line_of(op) not in {line_of(each) for each in op.ancestors() if each.name == _FUNCTION}
    if op.name != "scf.for":
        return False
    first, last = op.operands[:2]
    end = op.resolve(last)
    asked = [(op, first), (op, last)]
    if end is not None and isinstance(end.owner, Op) and end.owner.name == "arith.addi":
        added = [each for each in end.owner.operands if end.owner.resolve(each) != op.resolve(first)]
        asked = [(end.owner, each) for each in added] if len(added) == 1 else asked
    return any(_UNLIKE.search(made.name) for user, name in asked for made in makers_of(user, name))


def is_of_data(op: Op) -> bool:
    """Whether a tensor is made of what is loaded or multiplied."""
    is_tensor = elements(op.results[0].type) > 0
    return is_tensor and any(_DATA.search(each.name) for each in makers_of(op, op.operands[0]))


def makers_of_places(ops: Iterable[Op]) -> set[Op]:
    """The ops that have a part in where accesses by pointers go, or in their masks."""
    return {
        made
        for access in ops
        if _ACCESSES.match(access.name)
        for name, kind in zip(access.operands, access.operand_types, strict=True)
        if "ptr<" in kind or "xi1" in kind
        for made in makers_of(access, name)
    }


def has_constant_bounds(loop: Op) -> bool:
    """Whether a loop's bounds are numbers that the compiler knows."""
    bounds = [loop.resolve(name) for name in loop.operands[:3]]
    return all(
        each is not None and isinstance(each.owner, Op) and each.owner.name == "arith.constant"
        for each in bounds
    )


def is_of_counter(user: Op, name: str) -> bool:
    """Whether a value depends on the counter of a loop."""
    owners = (value.owner for value in _made_of(user, [name], _read_by) if value.index == 0)
    loops = (owner.parent_op for owner in owners if not isinstance(owner, Op))
    return any(loop is not None and loop.name == "scf.for" for loop in loops)


def is_of_outer_loop(loop: Op, *bounds: str) -> bool:
    """Whether a bound of a loop, one of these if any are given, depends on the counter of a loop around."""
    return _bounds(loop, bounds)[1]


def _bounds(loop: Op, bounds: Sequence[str]) -> tuple[bool, bool]:
    """Whether a bound depends on the program's id, and whether on the counter of a loop around."""
    program = outer = False
    # What a branch yields depends on what is in it, and on its condition.
    for value in _made_of(loop, bounds or loop.operands[:2], lambda op: chain(*map(_read_by, op.walk()))):
        owner = value.owner
        if isinstance(owner, Op):
            program |= owner.name == _PROGRAM
            continue
        around = owner.parent_op
        outer |= around is not None and around.name == "scf.for" and value.index == 0
        program |= owner.parent is not None and owner is not owner.parent.blocks[0]  # which branch came here?
    return program, outer


def _made_of(user: Op, names: Sequence[str], reads: Callable[[Op], Iterable[_Read]]) -> Iterator[Value]:
    """The values that these operands of an op are made of, themselves included, each once. reads: by which
    operands it goes on from an op that makes one."""
    left, seen = [(user, name) for name in names], set()
    while left:
        op, name = left.pop()
        value = op.resolve(name)
        if value is None or (id(value.owner), value.index) in seen:
            continue
        seen.add((id(value.owner), value.index))
        yield value
        if isinstance(value.owner, Op):
            left += reads(value.owner)


def _read_by(op: Op) -> list[_Read]:
    return [(op, name) for name in op.operands]
