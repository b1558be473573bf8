"""What spans are called, after the ops that they are around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.analyses.async_roles import barrier_of, started_on
from instrument_passes.analyses.opclasses import OPS, info_of
from instrument_passes.analyses.places import Places, variable_of
from instrument_passes.analyses.walk import LOOPS
from instrument_passes.functions import function_name
from instrument_passes.ir import Module, Op

__all__ = ["awaited", "call_name", "is_drain", "op_name"]


def op_name(op: Op, places: Places, awaited: Mapping[Op, str]) -> str:
    """What is done and to which variable of the source: "load x"; a call's is `call_name`,
    and a wait behind a pipelined loop drains it. awaited: see `awaited`."""
    if op.name == "tt.call":
        return call_name(op, places)
    info = info_of(op)
    if info is not None and is_drain(op):
        return f"{info.label} (drain)"
    variable = awaited.get(op, variable_of(op.loc))
    return f"{op.name if info is None else info.label} {variable}".rstrip()


def call_name(call: Op, places: Places) -> str:
    """The function's name in the source and the line: "call helper L40"."""
    return f"call {function_name(call.symbol or '')}{places.line_label(call)}"


# What is waited for on an mbarrier, in the names of the source.
#
# The pipeliner and the passes that specialise warps make barriers, and give what uses them the location of
# the loop or of the dot that they stand by: the name of an accumulator, say, to a wait for the copies of two
# tiles.

_USES: Final = ("ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier")


def awaited(module: Module) -> dict[Op, str]:
    """By op that waits on a barrier, or prepares one, what it is for: "a, b", or "" if that is not known.

    That is what the copies are called which arrive at the barrier. Where it is for other work, the op's own
    name is right unless the op has the location of a loop or function: then it is what that work is called.
    Ops whose own name is right are left out.
    """
    started: dict[Op, list[Op]] = {}
    for op in module.walk():
        barrier = started_on(op)
        if barrier is not None:
            started.setdefault(barrier, []).append(op)
    borrowed = {op.loc_text for op in module.walk() if op.name in LOOPS or op.name == "tt.func"}
    names = {}
    for op in module.walk():
        barrier = barrier_of(op) if op.name in _USES else None
        if barrier is None:
            continue
        work = started.get(barrier, [])
        copies = [each for each in work if OPS[each.name].cls == "async_copy"]
        if copies or op.loc_text in borrowed:
            named = (variable_of(each.loc) for each in copies or work if each.loc_text not in borrowed)
            names[op] = ", ".join(dict.fromkeys(filter(None, named)))
    return names


# Which waits drain a pipelined loop.
#
# The pipeliner leaves copies or tensor-core work of the last iterations under way when a loop ends, and puts
# a wait behind it. The wait has the location of the loop, and so the name of what the loop computes, for
# which it does not wait.


def is_drain(op: Op) -> bool:
    """Whether the op waits, behind a loop, for what the pipelined loop has left under way."""
    info = info_of(op)
    if info is None or info.cls != "wait" or op.parent is None:
        return False
    ops = op.parent.ops
    return any(earlier.name in LOOPS and earlier.loc_text == op.loc_text for earlier in ops[: ops.index(op)])
