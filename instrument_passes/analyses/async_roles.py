"""Finds the ops that start asynchronous work and those that wait for it, from a kernel's text.

Ops that belong together share a channel: the queue of cp.async groups, of TMA stores, of wgmma groups; or one
array of mbarriers, followed from each use through loops, branches and partitions to its allocation. On a
channel work is completed in the order it is started, so which wait ends which copy follows from counting
what ran, even where the pipeliner has put them iterations apart: see `profscope.decoding.in_flight`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from profscope.instrument_passes.analyses.walk import LOOPS, in_loop, program_of
from profscope.instrument_passes.ir import Block, Op, Region, Value, flow

__all__ = ["PARTS", "Role", "barrier_of", "initial_value", "roles", "source_of", "started_on"]

# issue: starts work that is a group of its own. member: starts work of a group that an open before it, or a
# close behind it, makes. wait: returns when all groups but the `pending` youngest are done. phase: returns
# when one more group is done, as waits on an mbarrier do, after the first `pending`, which find free buffers.
PARTS: Final = ("issue", "member", "open", "close", "wait", "phase")

_BARRIER: Final = re.compile(r"!ttg\.memdesc<(?:\d+x)*i64\b")
_QUEUES: Final[Mapping[str, tuple[str, str]]] = {
    "ttg.async_copy_global_to_local": ("cp.async", "member"),
    "amdg.buffer_load_to_local": ("cp.async", "member"),
    "ttg.async_commit_group": ("cp.async", "close"),
    "ttg.async_wait": ("cp.async", "wait"),
    "ttng.async_tma_copy_local_to_global": ("tma store", "issue"),
    "ttng.async_tma_scatter": ("tma store", "issue"),
    "ttng.async_tma_reduce": ("tma store", "issue"),
    "ttng.async_tma_store_wait": ("tma store", "wait"),
    "ttng.warp_group_dot": ("wgmma", "issue"),
    "ttng.warp_group_dot_wait": ("wgmma", "wait"),
}
_ON_BARRIERS: Final[Mapping[str, str]] = {
    "ttng.barrier_expect": "open",
    "ttng.async_tma_copy_global_to_local": "member",
    "ttng.async_tma_gather": "member",
    "ttng.tc_gen5_mma": "issue",
    "ttng.tc_gen5_mma_scaled": "issue",
    "ttng.tmem_copy": "issue",
    "ttng.tc_gen5_commit": "issue",
    "ttng.wait_barrier": "phase",
}
# These may do without a barrier of their own: the next commit ties them, and all before them, to its barrier.
_COMMITTED: Final = frozenset({"ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled", "ttng.tmem_copy"})
_COMMIT: Final = "ttng.tc_gen5_commit"


@dataclass(frozen=True, slots=True)
class Role:
    """The role of an op on its channel; part: one of PARTS.

    pending: groups that a wait leaves under way; of a phase, how many of the first waits wait for nothing.
    """

    part: str
    channel: int
    pending: int = 0


def roles(kernel: Op) -> dict[Op, Role]:
    """The role of every op of a kernel, and of the functions it calls, that has one.

    Channels are numbered as they appear.
    """
    parts: dict[Op, tuple[str, object, int]] = {}
    closing: set[Op] = set()  # commits behind work that has no barrier of its own
    for op in kernel.module.walk():
        if op.name in _QUEUES and not (
            op.name == "ttng.warp_group_dot" and op.attributes.get("isAsync") != "true"
        ):
            queue, part = _QUEUES[op.name]
            parts[op] = part, queue, _pending(op)
        elif op.name in _ON_BARRIERS:
            commit = _commit_of(op)
            root = barrier_of(commit or op)
            if root is None:
                continue
            if commit is not None:
                closing.add(commit)
            part = "member" if commit else "close" if op in closing else _ON_BARRIERS[op.name]
            parts[op] = part, root, 0
    _count_free_waits(parts)
    # Where nothing is started, as on the barriers by which consumers free buffers, there is nothing to pair.
    started = {channel for part, channel, _ in parts.values() if part in ("issue", "member")}
    number: dict[object, int] = {}
    result = {}
    for op, (part, channel, pending) in parts.items():
        if channel in started:
            result[op] = Role(part, number.setdefault(channel, len(number)), pending)
    return result


def started_on(op: Op) -> Op | None:
    """The barriers, by their allocation, on which the work that an op starts is completed; None if none."""
    if op.name == _COMMIT or _ON_BARRIERS.get(op.name) not in ("issue", "member"):
        return None
    return barrier_of(_commit_of(op) or op)


def _commit_of(op: Op) -> Op | None:
    """The commit that ties an op without a barrier of its own to one."""
    if op.name in _COMMITTED and not any(map(_BARRIER.match, op.operand_types)):
        return _next_commit(op)
    return None


def _next_commit(op: Op) -> Op | None:
    """The commit that follows in every run, and next; None if there is none, or which it is may change."""
    while op.parent is not None:
        at = op.parent.ops.index(op)
        for following in op.parent.ops[at + 1 :]:
            if following.name == _COMMIT:
                return following
            if any(inner.name == _COMMIT for inner in following.walk()):
                return None
        around = op.parent_op
        if around is None or op.parent.parent is None or op.parent.parent.isolated:
            return None
        if around.name in LOOPS and any(inner.name == _COMMIT for inner in around.walk()):
            return None  # that of the next iteration, or one behind the loop
        op = around
    return None


def _count_free_waits(parts: dict[Op, tuple[str, object, int]]) -> None:
    """Set how many of the first waits on each channel wait for nothing; drop channels that do not tell.

    A new barrier is in its phase 0: a wait for the end of phase 0 waits for work, one for that of phase 1
    does not, once for each barrier of the array. Producers begin so, as all buffers are free.
    """
    first: dict[object, dict[Region | None, Op]] = {}
    for op, (part, channel, _) in parts.items():
        if part == "phase":
            first.setdefault(channel, {}).setdefault(program_of(op), op)
    free: dict[object, int | None] = {}
    for channel, waits in first.items():
        assert isinstance(channel, Op)
        phases = {_phase(wait) for wait in waits.values()}
        depth = _barriers(channel)
        if phases == {0}:
            free[channel] = 0
        elif phases == {1} and depth and not in_loop(channel):
            free[channel] = depth
        else:
            free[channel] = None
    for op, (part, channel, _) in tuple(parts.items()):
        count = free.get(channel, 0)
        if count is None:
            del parts[op]
        elif part == "phase":
            parts[op] = part, channel, count


def _phase(wait: Op) -> int | None:
    """The phase whose end a wait waits for when it first runs."""
    value = initial_value(wait.resolve(wait.operands[1]))
    return None if value is None else value & 1


def _barriers(allocation: Op) -> int:
    """How many barriers an allocation has, 0 if its type does not tell."""
    match = re.match(r"!ttg\.memdesc<((?:\d+x)*)i64\b", allocation.results[0].type)
    return math.prod(int(size) for size in match[1].split("x") if size) if match else 0


def _pending(op: Op) -> int:
    name = "num" if "num" in op.attributes else "pendings"
    pending = op.integer(name, 0)
    if pending is None:
        raise op.error(f"expected an integer for attribute {name!r}")
    return pending


def barrier_of(op: Op) -> Op | None:
    """The allocation of the barriers that an op uses; None if it uses none or it cannot be followed."""
    for name, kind in zip(op.operands, op.operand_types, strict=True):
        if _BARRIER.match(kind):
            return _allocation(op.resolve(name), 0)
    return None


def _allocation(value: Value | None, depth: int) -> Op | None:
    if value is None or depth > 50:
        return None
    source = source_of(value)
    if isinstance(source, Op):
        return source if source.name == "ttg.local_alloc" else None
    return _allocation(source, depth + 1)


def source_of(value: Value) -> Value | Op | None:
    """The source of a value, one step up; for a loop-carried value, its initial value."""
    owner = value.owner
    if isinstance(owner, Block):
        around = owner.parent_op
        if around is None:
            return None
        if around.name == "scf.for" and value.index > 0:
            return around.resolve(flow.read_for(around).iter_args[value.index - 1][1])
        if around.name == "ttg.warp_specialize":
            return around.resolve(around.operands[value.index])
        return None
    if owner.name == "scf.for":
        return owner.resolve(flow.read_for(owner).iter_args[value.index][1])
    if owner.name == "scf.if":
        end = owner.regions[0].entry.terminator
        return None if end is None else end.resolve(end.operands[value.index])
    if owner.name.startswith("ttg.memdesc_"):
        return owner.resolve(owner.operands[0])
    return owner


# Values of integers when the code that computes them first runs.

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
    """The value by constants, arithmetic and initial values of loops; None if unknown."""
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
        loop = flow.read_for(around)
        name = loop.lower if index == 0 else loop.iter_args[index - 1][1]
        return initial_value(around.resolve(name), depth + 1)
    if around.name == "ttg.warp_specialize":
        return initial_value(around.resolve(around.operands[index]), depth + 1)
    return None


def _apply(function: Callable[[int, int], int], left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else int(function(left, right))


def _integer(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text)
