"""What a kernel does outside of its arguments' memory: who repeats a launch cannot take that back."""

from __future__ import annotations

from typing import Final

from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.analyses.values import POINTERS
from profscope.instrument_passes.ir.signature import element_type
from profscope.instrument_passes.scopes import marker_of

__all__ = ["is_impure", "outside_effect"]

_FOREIGN: Final = ("tt.elementwise_inline_asm", "tt.extern_elementwise")


def outside_effect(graph: Graph) -> str:
    """Why launches of a kernel cannot be repeated unseen, with the line; "" if they can."""
    for node in graph.nodes:
        if why := _effect(node):
            return f"line {node.line}: {why}" if node.line else why
    return ""


def is_impure(node: Node) -> bool:
    """Whether it is code of another language that may have effects of its own."""
    return node.name in _FOREIGN and "pure = true" not in node.text


def _effect(node: Node) -> str:
    if node.name == "tt.print":
        return "it prints"
    if is_impure(node) and marker_of(node.op) is None:
        return "assembly or a library's function may write anywhere"
    makes_pointers = any(element_type(each.type).startswith(POINTERS) for each in node.results)
    if makes_pointers and node.name in ("tt.int_to_ptr", "tt.load"):
        return "it writes or reads where no argument points to"
    return ""
