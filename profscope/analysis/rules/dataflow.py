"""What ops do with values, for rules that follow them through a loop."""

from __future__ import annotations

import re
from typing import Final

from profscope.analysis.rules.kernel import DOTS
from profscope.instrument_passes.analyses.graph import Graph, Node, Value

__all__ = [
    "CASTS",
    "FROM_INTEGER",
    "computed_by",
    "is_dot",
    "is_elementwise",
    "is_load",
    "is_store",
]

CASTS: Final = re.compile(r"arith\.(extf|truncf|sitofp|uitofp|fptosi|fptoui)$|tt\.fp_to_fp$")
"""Ops that convert numbers from one type to another."""
FROM_INTEGER: Final = ("arith.sitofp", "arith.uitofp")
_ELEMENTWISE: Final = re.compile(
    r"(arith|math)\.|tt\.(fp_to_fp|splat|broadcast|expand_dims|reshape|trans|split|join|cat)$"
    r"|ttg\.(convert_layout|local_alloc|memdesc_\w+)$"
)
_STORES: Final = re.compile(
    r"tt\.(store|descriptor_store)$|ttg\.local_store$|async_tma_copy_local_to_global$"
)
_LOADS: Final = ("tt.load", "tt.descriptor_load", "ttg.local_load")


def is_elementwise(node: Node) -> bool:
    """Whether each element of its result is computed of one of each operand, in whatever place or shape."""
    return _ELEMENTWISE.match(node.name) is not None


def is_dot(node: Node) -> bool:
    return re.search(DOTS, node.name) is not None


def is_store(node: Node) -> bool:
    return _STORES.search(node.name) is not None


def is_load(node: Node) -> bool:
    """Whether it brings data to registers."""
    return node.name in _LOADS


def computed_by(graph: Graph, value: Value, loop: Node) -> tuple[list[Node], bool]:
    """The ops of a loop that a value is computed by, back to what is loaded, and whether a value of the step
    before is among what it is computed from."""
    left, seen, found, is_carried = [value], set[Value](), list[Node](), False
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        if each.maker is None:
            is_carried |= each.around is loop and not each.is_counter
        elif each.maker is not loop and each.maker.is_in(loop):
            found.append(each.maker)
            left += [] if is_load(each.maker) else each.maker.operands
    return list(dict.fromkeys(found)), is_carried
