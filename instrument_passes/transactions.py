"""Which ops start asynchronous work and which wait for it, as far as a kernel's text tells.

Ops that belong together share a channel: the queue of cp.async groups, of TMA stores, of wgmma groups; or one
array of mbarriers, followed from each use through loops, branches and partitions to its allocation. On a
channel work is completed in the order it is started, so which wait ends which copy follows from counting
what ran, even where the pipeliner has put them iterations apart: see `profscope.transactions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from instrument_passes.ir import Block, Op, Value, for_op

__all__ = ["PARTS", "Role", "roles"]

# issue: starts work that is a group of its own. member: starts work of a group that an open before it, or a
# close behind it, makes. wait: returns when all groups but the `pending` youngest are done. phase: returns
# when one more group is done, as waits on an mbarrier do.
PARTS: Final = ("issue", "member", "open", "close", "wait", "phase")

_BARRIER: Final = re.compile(r"!ttg\.memdesc<(?:\d+x)*i64\b")
_QUEUES: Final[Mapping[str, tuple[str, str]]] = {
    "ttg.async_copy_global_to_local": ("cp.async", "member"),
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
    "ttng.wait_barrier": "phase",
}


@dataclass(frozen=True, slots=True)
class Role:
    """What an op is on its channel; part: one of PARTS, pending: groups a wait leaves under way."""

    part: str
    channel: int
    pending: int = 0


def roles(kernel: Op) -> dict[Op, Role]:
    """The role of every op of a kernel, and of the functions it calls, that has one.

    Channels are numbered as they appear.
    """
    found: dict[Op, tuple[str, object, int]] = {}
    for op in kernel.module.walk():
        if op.name in _QUEUES and not (
            op.name == "ttng.warp_group_dot" and op.attributes.get("isAsync") != "true"
        ):
            queue, part = _QUEUES[op.name]
            found[op] = part, queue, _pending(op)
        elif op.name in _ON_BARRIERS:
            root = _barrier(op)
            if root is not None:
                found[op] = _ON_BARRIERS[op.name], root, 0
    # Where nothing is started, as on the barriers by which consumers free buffers, there is nothing to pair.
    started = {channel for part, channel, _ in found.values() if part in ("issue", "member")}
    number: dict[object, int] = {}
    result = {}
    for op, (part, channel, pending) in found.items():
        if channel in started:
            result[op] = Role(part, number.setdefault(channel, len(number)), pending)
    return result


def _pending(op: Op) -> int:
    text = op.attributes.get("num") or op.attributes.get("pendings") or "0"
    return int(text.split(":")[0])


def _barrier(op: Op) -> Op | None:
    """The allocation of the barriers that an op uses; None if it uses none or it cannot be followed."""
    for name, kind in zip(op.operands, op.operand_types, strict=True):
        if _BARRIER.match(kind):
            return _allocation(op.resolve(name), 0)
    return None


def _allocation(value: Value | None, depth: int) -> Op | None:
    if value is None or depth > 50:
        return None
    source = _source(value)
    if isinstance(source, Op):
        return source if source.name == "ttg.local_alloc" else None
    return _allocation(source, depth + 1)


def _source(value: Value) -> Value | Op | None:
    """Where a value comes from: one step up; for what a loop carries, what it starts with."""
    owner = value.owner
    if isinstance(owner, Block):
        around = owner.parent_op
        if around is None:
            return None
        if around.name == "scf.for" and value.index > 0:
            return around.resolve(for_op.read(around).iter_args[value.index - 1][1])
        if around.name == "ttg.warp_specialize":
            return around.resolve(around.operands[value.index])
        return None
    if owner.name == "scf.for":
        return owner.resolve(for_op.read(owner).iter_args[value.index][1])
    if owner.name == "scf.if":
        end = owner.regions[0].entry.terminator
        return None if end is None else end.resolve(end.operands[value.index])
    if owner.name.startswith("ttg.memdesc_"):
        return owner.resolve(owner.operands[0])
    return owner
