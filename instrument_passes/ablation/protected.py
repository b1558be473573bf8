"""Which ops an experiment may not change: those that control flow, addresses, masks or barriers rest on.

Without them other ops would do other work, and the experiment would measure that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from profscope.instrument_passes.analyses.graph import Graph, Node, Value
from profscope.instrument_passes.analyses.opclasses import info_of
from profscope.instrument_passes.analyses.values import ATOMICS, FOR_BOUNDS, POINTERS, WRITES
from profscope.instrument_passes.ir.signature import element_type

__all__ = ["Protected", "why_refused"]

_POLLS: Final = re.compile(r"tt\.atomic_(cas|poll)$|amdg\.buffer_atomic_cas$|lock_(acquire|release)$")
_NUMBERS: Final = ("i1", "i32", "i64", "index")
_ADDRESSES: Final = ("load", "store", "atomic", "async_copy", "local", "mma", "view", "reduce")
_ASSERTS: Final = ("tt.assert", "cf.assert")
_TO_GLOBAL: Final = re.compile(
    r"tt\.(store|atomic_\w+|descriptor_(store|scatter|reduce))$|async_tma_(copy_local_to_global|scatter|reduce)$"
    r"|amdg\.(buffer|masked)_(store|atomic_rmw)$"
)


def why_refused(graph: Graph) -> str:
    """Why no experiment is made with a kernel: it waits for others and might not end. "" if it does not."""
    for node in graph.nodes:
        if _POLLS.search(node.name):
            return f"{_at(node)}it waits for other programs ({node.name})"
        if node.name == "scf.while":
            conditions = [each for end in graph.ends(node) for each in end.operands[:1]]
            for maker in graph.backward(conditions):
                if maker.is_in(node) and (_reads(maker) or _is_impure_assembly(maker)):
                    return f"{_at(node)}a loop waits for what {maker.name} reads"
    return ""


class Protected:
    """Of a module's graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._why: dict[Node, str] = {}
        for reason, values in _roots(graph):
            self._protect(reason, values)
        self._protect_what_is_read_back()

    def why_not(self, node: Node) -> str:
        """Why an op must keep what it computes; "" if it need not."""
        return self._why.get(node, "")

    def _protect(self, reason: str, values: list[Value]) -> None:
        for node in self._graph.backward(values, lambda each: each not in self._why):
            self._why.setdefault(node, reason)
            if node.name != "ttg.local_alloc":
                continue
            for each in self._graph.nodes:  # what fills the buffer
                if WRITES.search(each.name) and any(self._graph.buffer(of) is node for of in each.operands):
                    self._why.setdefault(each, reason)

    def _protect_what_is_read_back(self) -> None:
        """Writes to memory from which the kernel loads what is protected, and what they write."""
        read: set[int] = set()
        for node, _ in list(self._why.items()):
            if _reads(node):
                read |= self._graph.positions(*node.operands).arguments or set()
        for node in self._graph.nodes:
            if not _TO_GLOBAL.search(node.name) or node in self._why:
                continue
            pointers = [each for each in node.operands if _is_pointer(each)]
            written = self._graph.positions(*pointers).arguments if pointers else None
            if read and (written is None or written & read):
                reason = "what it writes is read again, and an address or a branch rests on it"
                self._why[node] = reason
                self._protect(reason, node.operands)


def _roots(graph: Graph) -> Iterator[tuple[str, list[Value]]]:
    """What must stay, by the reason."""
    for node in graph.nodes:
        operands = node.operands
        if node.name == "scf.for":
            yield f"a loop's bounds{_line(node)} rest on it", operands[:FOR_BOUNDS]
        elif node.name in ("scf.if", "cf.cond_br", "cf.switch", "scf.condition", "scf.index_switch"):
            yield f"a branch{_line(node)} rests on it", operands[:1]
        elif node.name in _ASSERTS:
            yield f"an assertion{_line(node)} rests on it", operands
        elif _is_impure_assembly(node):
            yield f"assembly{_line(node)} with effects of its own uses it", operands
        elif (info := info_of(node.op)) is not None:
            if info.cls in ("barrier", "wait", "descriptor"):
                yield (
                    f"a barrier or descriptor{_line(node)} rests on it",
                    [each for each in operands if _is_pointer(each) or each.type in _NUMBERS],
                )
            elif info.cls in _ADDRESSES:
                yield (
                    f"an address or a mask{_line(node)} rests on it",
                    [each for each in operands if _is_pointer(each) or _is_position(node, each)],
                )


def _is_pointer(value: Value) -> bool:
    return element_type(value.type).startswith(POINTERS)


def _is_position(node: Node, value: Value) -> bool:
    """Whether an operand of an access says which elements: a mask, an index, a predicate."""
    kind = element_type(value.type)
    if kind == "i1":
        return not node.name.startswith("tt.store") or value in node.operands[2:]
    if node.name == "tt.addptr" or (value.type.startswith("tensor<") and not _gathers(node)):
        return False
    return kind in _NUMBERS


def _gathers(node: Node) -> bool:
    return re.search(r"gather|scatter|histogram|^amdg\.buffer", node.name) is not None


def _reads(node: Node) -> bool:
    info = info_of(node.op)
    return ATOMICS.match(node.name) is not None or (info is not None and info.cls in ("load", "async_copy"))


def _is_impure_assembly(node: Node) -> bool:
    return node.name.endswith("inline_asm") and "pure = true" not in node.text


def _line(node: Node) -> str:
    return f" at line {node.line}" if node.line else ""


def _at(node: Node) -> str:
    return f"line {node.line}: " if node.line else ""
