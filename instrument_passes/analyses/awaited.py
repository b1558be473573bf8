"""What is waited for on an mbarrier, in the names of the source.

The pipeliner and the passes that specialise warps make barriers, and give what uses them the location of the
loop or of the dot that they stand by: the name of an accumulator, say, to a wait for the copies of two tiles.
"""

from __future__ import annotations

from typing import Final

from instrument_passes.analyses.async_roles import barrier_of, started_on
from instrument_passes.analyses.opclasses import OPS
from instrument_passes.analyses.places import variable_of
from instrument_passes.analyses.walk import LOOPS
from instrument_passes.ir import Module, Op

__all__ = ["awaited"]

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
