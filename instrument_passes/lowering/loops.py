"""Carrying row counters through either kind of loop, with one face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instrument_passes.analyses.walk import loop_body
from instrument_passes.ir import Op, edit, for_op, while_op

__all__ = ["Carried", "carry", "hand_on"]


@dataclass(frozen=True)
class Carried:
    """SSA names of i32 values carried through a loop: in its body, and behind it; `end` closes the body."""

    inside: Sequence[str]
    behind: Sequence[str]
    end: Op


def carry(loop: Op, inits: Sequence[str]) -> Carried:
    """Carry i32 values, starting as `inits`, through the loop; `hand_on` must follow."""
    typed = [(init, "i32") for init in inits]
    if loop.name == "scf.while":
        carried = while_op.add_carried(loop, typed)
        while_op.set_condition_extra(loop, carried.before)
        inside, behind = carried.after, carried.results
    else:
        names = for_op.add_iter_args(loop, typed)
        inside, behind = tuple(names[0]), tuple(names[1])
    return Carried(inside, behind, edit.ensure_terminator(loop_body(loop), "scf.yield"))


def hand_on(loop: Op, values: Sequence[str]) -> None:
    """What the body makes of the carried values, for the next iteration."""
    set_yield = while_op.set_yield_extra if loop.name == "scf.while" else for_op.set_yield_extra
    set_yield(loop, values)
