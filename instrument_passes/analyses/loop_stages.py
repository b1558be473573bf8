"""The stage and iteration of its loop that the software pipeliner gave to an op.

The pipeliner starts an op that iteration k needs some iterations earlier. An op that it moves ahead by d
iterations stands d times before the loop, for iterations 0 to d - 1 (the prologue), and in the loop (the
steady state) works for the iteration d ahead; the predicate `induction < upper - d * step` switches it off
where there is none. An op is labelled only if the predicate and the number of copies agree. Behind the loop
(the epilogue) are waits for what it has left under way: other last iterations Triton does not peel off but
predicates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from profscope.instrument_passes.analyses.walk import LOOPS, constant_of, loop_body, recordable_blocks
from profscope.instrument_passes.ir import Block, Op, flow
from profscope.instrument_passes.ir.signature import element_type
from profscope.instrument_passes.ops import info_of

__all__ = ["STAGES", "Stage", "is_switched_on", "predicate_of", "stages"]

STAGES: Final = ("prologue", "steady", "epilogue")

_DEEPEST: Final = 50  # additions that a value is followed through
# Through these a mask is followed to the predicate it is made of.
_TRANSPARENT: Final = frozenset({"arith.andi", "tt.splat", "tt.broadcast", "ttg.convert_layout"})
# An op of these classes works for what earlier ops have started, which may be another iteration's.
_LOOKS_BACK: Final = ("wait", "barrier", "async_copy")


@dataclass(frozen=True, slots=True)
class Stage:
    """part: one of STAGES. loop: the pipelined loop, numbered in the kernel's program order.

    ahead: in the prologue the number of the iteration that the op works for; in the steady state how many
    iterations ahead of the running one it is; in the epilogue 0 for the last one, -1 if it is not known.
    peeled: how many last iterations do not run in the loop but behind it.
    """

    part: str
    loop: int
    ahead: int = 0
    peeled: int = 0


def stages(kernel: Op) -> dict[Op, Stage]:
    """The stage of every op of a kernel, and of the functions it calls, that can be told for certain."""
    stage_of: dict[Op, Stage] = {}
    number = 0
    for block in recordable_blocks(kernel):
        for op in tuple(block.ops):
            if op.name == "scf.for":
                stage_of |= _of_loop(block, op, number)
                number += 1
    return stage_of


def _of_loop(block: Block, loop: Op, number: int) -> dict[Op, Stage]:
    before, behind = _neighbours(block, loop)
    body = loop_body(loop).ops
    alone = {key for key, times in Counter(map(_identity, body)).items() if times == 1}
    copies = {
        op: earlier
        for op in body
        if _identity(op) in alone and (earlier := [o for o in before if _identity(o) == _identity(op)])
    }
    ahead: dict[Op, int] = {}
    peeled = 0
    for op, earlier in copies.items():
        bounds = [b for cmp in _comparisons(op) if (b := _bound(cmp, flow.read_for(loop).induction))]
        upper = loop, flow.read_for(loop).upper
        for whole in (upper, *_original_uppers(earlier[0], loop)):
            if any(_apart(whole, bound, loop) == len(earlier) for bound in bounds):
                ahead[op] = len(earlier)
                peeled = max(peeled, _apart(whole, upper, loop))
                break
    for op, earlier in copies.items():
        if is_switched_on(op) and len(earlier) <= peeled:  # always true, because the loop's end is peeled off
            ahead[op] = len(earlier)
        elif op.name == "ttg.async_commit_group":  # has no predicate, and goes with the copies it closes
            closed = {ahead.get(maker, 0) for maker in _makers(op)}
            if closed == {len(earlier)}:
                ahead[op] = len(earlier)
    if not ahead:  # not pipelined, or not so that it could be told
        return {}
    stage_of: dict[Op, Stage] = {}
    present = set(map(_identity, before))
    for op in body:
        if op in ahead:
            stage_of[op] = Stage("steady", number, ahead[op], peeled)
            stage_of |= {other: Stage("prologue", number, k, peeled) for k, other in enumerate(copies[op])}
        elif not _looks_back(op) and _identity(op) not in present:
            # What stands before the loop in no copy is not ahead of its iteration.
            stage_of[op] = Stage("steady", number, 0, peeled)
    return stage_of | _epilogue(behind, loop, alone, number, peeled)


def _epilogue(
    behind: Sequence[Op], loop: Op, alone: set[tuple[str, str]], number: int, peeled: int
) -> dict[Op, Stage]:
    """Waits that drain the pipeline, and the last iteration, where it was peeled off."""
    stage_of = {}
    for op in behind:
        if op.loc_text != loop.loc_text:
            continue
        if op.name == "scf.if" and peeled == 1:
            for inner in op.regions[0].entry.ops:
                if _identity(inner) in alone:
                    stage_of[inner] = Stage("epilogue", number, -1 if _looks_back(inner) else 0, peeled)
        elif _class(op) == "wait":
            stage_of[op] = Stage("epilogue", number, -1, peeled)
    return stage_of


def _makers(op: Op) -> list[Op]:
    """The ops whose results an op uses."""
    values = [op.resolve(name) for name in op.operands]
    return [v.owner for v in values if v is not None and isinstance(v.owner, Op)]


def _class(op: Op) -> str:
    info = info_of(op)
    return "" if info is None else info.cls


def _looks_back(op: Op) -> bool:
    return _class(op) in _LOOKS_BACK


def _identity(op: Op) -> tuple[str, str]:
    """The same for the copies that the pipeliner makes of an op."""
    return op.name, op.loc_text


def _neighbours(block: Block, loop: Op) -> tuple[Sequence[Op], Sequence[Op]]:
    """The ops of the block between the loop and the one before it, and the one behind it."""
    ops = block.ops
    at = ops.index(loop)
    loops = [i for i, op in enumerate(ops) if op.name in LOOPS]
    first = max((i for i in loops if i < at), default=-1) + 1
    last = min((i for i in loops if i > at), default=len(ops))
    return ops[first:at], ops[at + 1 : last]


def _comparisons(op: Op) -> Iterator[Op]:
    """The comparisons of scalars that must be true for the op to do something."""
    names = [predicate_of(op)]
    if op.name == "ttg.async_copy_global_to_local":
        kinds = zip(op.operands, op.operand_types, strict=True)
        names = [name for name, kind in kinds if element_type(kind) == "i1"]
    values = [op.resolve(name) for name in names if name]
    seen: set[Op] = set()
    while values:
        value = values.pop()
        if value is None or not isinstance(value.owner, Op) or value.owner in seen:
            continue
        maker = value.owner
        seen.add(maker)
        if maker.name == "arith.cmpi":
            yield maker
        elif maker.name in _TRANSPARENT:
            values += [maker.resolve(name) for name in maker.operands]


def _bound(comparison: Op, induction: str) -> tuple[Op, str] | None:
    """Where the comparison is `induction < bound`, the op that uses the bound, and its name."""
    operands = comparison.operands
    is_less = " slt," in comparison.first_line
    return (comparison, operands[1]) if is_less and operands[0] == induction else None


def _original_uppers(first: Op, loop: Op) -> Iterator[tuple[Op, str]]:
    """The upper bound of the loop as it was, from the predicate of the op's copy for iteration 0: lower <
    upper. The pipeliner may have peeled the last iterations off since."""
    lower = _linear(loop, flow.read_for(loop).lower)
    for comparison in _comparisons(first):
        left, right = comparison.operands
        if " sgt," in comparison.first_line:
            left, right = right, left
        elif " slt," not in comparison.first_line:
            continue
        if _linear(comparison, left) == lower:
            yield comparison, right


def _apart(upper: tuple[Op, str], bound: tuple[Op, str], loop: Op) -> int:
    """d of `bound = upper - d * step`, each a name and an op that uses it; 0 if that cannot be told."""
    step = flow.read_for(loop).step
    size = constant_of(loop, step)
    if size is not None:
        (base, more), (same, less) = _linear(*upper), _linear(*bound)
        apart = more - less
        return apart // size if base == same and size > 0 and apart > 0 and apart % size == 0 else 0
    value = bound[0].resolve(bound[1])
    if value is None or not isinstance(value.owner, Op) or value.owner.name != "arith.subi":
        return 0
    whole, taken = value.owner.operands
    if whole != upper[1]:
        return 0
    if taken == step:
        return 1
    product = value.owner.resolve(taken)
    if product is None or not isinstance(product.owner, Op) or product.owner.name != "arith.muli":
        return 0
    factors = [factor for factor in product.owner.operands if factor != step]
    return max(0, constant_of(product.owner, factors[0]) or 0) if len(factors) == 1 else 0


def _linear(op: Op, name: str, depth: int = 0) -> tuple[str, int]:
    """A value that `op` uses as another plus a constant; the other is "" if it is a constant itself."""
    constant = constant_of(op, name)
    if constant is not None:
        return "", constant
    value = op.resolve(name)
    maker = None if value is None else value.owner
    if isinstance(maker, Op) and maker.name in ("arith.addi", "arith.subi") and depth < _DEEPEST:
        left, right = maker.operands
        more = constant_of(maker, right)
        if more is not None:
            base, offset = _linear(maker, left, depth + 1)
            return base, offset + (more if maker.name == "arith.addi" else -more)
    return name, 0


# Predicated ops: those that do nothing where an i1 operand of theirs is false.
#
# The pipeliner does not peel the last iterations of a loop on mbarriers off, it switches the ops in them off.

# Which of an op's i1 operands, counted from 0, switches it on. (The first of an MMA says whether it adds to
# the accumulator; those behind the second belong to its barriers.)
_SWITCH: Final[Mapping[str, int]] = {
    "ttng.arrive_barrier": 0,
    "ttng.async_tma_copy_global_to_local": 0,
    "ttng.async_tma_gather": 0,
    "ttng.barrier_expect": 0,
    "ttng.tc_gen5_commit": 0,
    "ttng.tc_gen5_mma": 1,
    "ttng.tc_gen5_mma_scaled": 1,
    "ttng.tmem_store": 0,
    "ttng.wait_barrier": 0,
}
_TRUE: Final = re.compile(r"\barith\.constant true\b")


def predicate_of(op: Op) -> str:
    """The SSA name of the i1 that switches an op on; "" if nothing does, or a constant that is true."""
    name = _switch(op)
    return "" if not name or _is_true(op, name) else name


def is_switched_on(op: Op) -> bool:
    """Whether an op has a predicate, and that is a constant that is true."""
    name = _switch(op)
    return bool(name) and _is_true(op, name)


def _switch(op: Op) -> str:
    if op.name not in _SWITCH:
        return ""
    switches = [n for n, kind in zip(op.operands, op.operand_types, strict=True) if kind == "i1"]
    return switches[_SWITCH[op.name]] if len(switches) > _SWITCH[op.name] else ""


def _is_true(op: Op, name: str) -> bool:
    value = op.resolve(name)
    return value is not None and isinstance(value.owner, Op) and bool(_TRUE.search(value.owner.first_line))
