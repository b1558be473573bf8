"""The table of ops: class, name shown, what the end of a span on the op means, what it moves and computes.

A span around an op covers its issue: the warp goes on as soon as the instructions are issued, unless the op
itself waits (`OpInfo.completes`). The table knows every op of Triton's dialects from 3.6 to 3.9, also those
without time of their own, so that an op without a row is news: `lower-records` notes it in the manifest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from profscope.instrument_passes.ir import Module, Op
from profscope.instrument_passes.ops import CLASSES, DEFAULT_CLASSES, OPS, SPANNABLE, OpInfo

__all__ = [
    "CLASSES",
    "DEFAULT_CLASSES",
    "OPS",
    "SPANNABLE",
    "OpInfo",
    "info_of",
    "uncovered",
]

# On scalars these are loop and address arithmetic.
_PER_ELEMENT: Final = ("elementwise", "math", "convert", "view")
# With an operand they store it, without one they only reserve memory.
_ALLOCATIONS: Final = ("ttg.local_alloc", "ttng.tmem_alloc")
# What `tl.extra.cuda.gdc_wait` and `gdc_launch_dependents` were before Triton 3.9 gave them ops.
_GRID_DEPENDENCY: Final = {
    '"griddepcontrol.wait;': "tt.grid_dependency_wait",
    '"griddepcontrol.launch_dependents;': "tt.grid_dependency_launch_dependents",
}


def info_of(op: Op) -> OpInfo | None:
    """The row of an op, as this op uses it; None if the table does not know the op."""
    info = OPS.get(op.name)
    if info is None:
        return None
    if op.name == "tt.elementwise_inline_asm":
        for assembly, name in _GRID_DEPENDENCY.items():
            if assembly in op.first_line:
                return OPS[name]
    if info.cls in _PER_ELEMENT and not any("<" in value.type for value in op.results):
        return replace(info, cls="scalar")
    if op.name in _ALLOCATIONS and not op.operands:
        return replace(info, cls="alloc", moves="")
    if op.name == "ttng.warp_group_dot" and op.attributes.get("isAsync") != "true":
        return replace(info, label="dot", completes=True, partners=())
    return info


def uncovered(module: Module) -> list[Op]:
    """The first op of every name that the table does not know, in the order of the text."""
    first_of: dict[str, Op] = {}
    for op in module.walk():
        if op.name not in OPS:
            first_of.setdefault(op.name, op)
    return list(first_of.values())
