"""Predicated ops: those that do nothing where an i1 operand of theirs is false.

The pipeliner does not peel the last iterations of a loop on mbarriers off, it switches the ops in them off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from instrument_passes.ir import Op

__all__ = ["is_switched_on", "predicate_of"]

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
