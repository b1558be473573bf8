"""Which waits drain a pipelined loop.

The pipeliner leaves copies or tensor-core work of the last iterations under way when a loop ends, and puts a
wait behind it. The wait has the location of the loop, and so the name of what the loop computes, for which it
does not wait.
"""

from __future__ import annotations

from instrument_passes.analyses.opclasses import info_of
from instrument_passes.analyses.walk import LOOPS
from instrument_passes.ir import Op

__all__ = ["is_drain"]


def is_drain(op: Op) -> bool:
    """Whether the op waits, behind a loop, for what the pipelined loop has left under way."""
    info = info_of(op)
    if info is None or info.cls != "wait" or op.parent is None:
        return False
    ops = op.parent.ops
    return any(earlier.name in LOOPS and earlier.loc_text == op.loc_text for earlier in ops[: ops.index(op)])
