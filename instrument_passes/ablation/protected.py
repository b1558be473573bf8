"""Ops that an experiment may not change, because control flow, addresses, masks or barriers depend on them.

Without them other ops would do other work, and the experiment would measure that. A launch with effects
outside of its arguments' memory may not be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from profscope.instrument_passes.analyses.graph import Graph, Node, Value
from profscope.instrument_passes.analyses.values import ATOMICS, FOR_BOUNDS, POINTERS, WRITES
from profscope.instrument_passes.ir.signature import element_type
from profscope.instrument_passes.ops import info_of
from profscope.instrument_passes.scopes import marker_of

__all__ = ["Protected", "is_impure", "outside_effect", "why_refused"]

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


_POLLS: Final = re.compile(r"tt\.atomic_(cas|poll)$|amdg\.buffer_atomic_cas$|lock_(acquire|release)$")
_NUMBERS: Final = ("i1", "i32", "i64", "index")
_ADDRESSES: Final = ("load", "store", "atomic", "async_copy", "local", "mma", "view", "reduce")
_ASSERTS: Final = ("tt.assert", "cf.assert", "tt.print")
_READ_AGAIN: Final = "what it writes is read again, and an address or a branch rests on it"
_TO_GLOBAL: Final = re.compile(
    r"tt\.(store|atomic_\w+|descriptor_(store|scatter|reduce))$|async_tma_(copy_local_to_global|scatter|reduce)$"
    r"|amdg\.(buffer|masked)_(store|atomic_rmw)$"
)


def why_refused(graph: Graph, alike: Mapping[int, int] = MappingProxyType({})) -> str:
    """Why no experiment is made with a kernel: a loop of it may wait for others. "" if none does.

    alike: see `Protected`.
    """
    written = _Memory(graph, alike).written()
    for node in graph.nodes:
        if _POLLS.search(node.name) and node.loops:
            return f"{_at(node)}it waits for other programs ({node.name})"
        if node.name != "scf.while":
            continue
        conditions = [each for end in graph.ends(node) for each in end.operands[:1]]
        for maker in graph.backward(conditions):
            if maker.is_in(node) and _may_wait(graph, node, maker, written, alike):
                return f"{_at(node)}a loop may wait for what {maker.name} reads"
    return ""


def _may_wait(
    graph: Graph, loop: Node, reader: Node, written: set[int] | None, alike: Mapping[int, int]
) -> bool:
    """Whether a loop may read the same place until others write there."""
    if is_impure(reader) or ATOMICS.match(reader.name):
        return True
    if not _reads(reader):
        return False
    read = _Memory(graph, alike).behind(reader.operands)
    if "isVolatile = true" in reader.text or written is None or read is None or read & written:
        return True
    return loop not in graph.depends(reader.operands[0]).varies_in


class Protected:
    """Protected ops of a module's graph. alike: by argument, one number for all whose memory overlaps; one
    that is missing overlaps none."""

    def __init__(self, graph: Graph, alike: Mapping[int, int] = MappingProxyType({})) -> None:
        self._graph = graph
        self._memory = _Memory(graph, alike)
        self._why: dict[Node, str] = {}
        for reason, values in _roots(graph):
            self._protect(reason, values)
        while self._protect_what_is_read_back():
            pass
        self._protect_barriers()

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

    def _protect_what_is_read_back(self) -> bool:
        """Writes to memory from which the kernel loads what is protected, and what they write. Whether there
        was one more."""
        read: set[int] | None = set()
        for node in self._why:
            if _reads(node) and read is not None:
                behind = self._memory.behind(node.operands)
                read = None if behind is None else read | behind
        for node in self._graph.nodes:
            if not _TO_GLOBAL.search(node.name) or node in self._why:
                continue
            written = self._memory.behind([each for each in node.operands if _is_pointer(each)])
            if read is None or (read and (written is None or written & read)):
                self._why[node] = _READ_AGAIN
                self._protect(_READ_AGAIN, node.operands)
                return True
        return False

    def _protect_barriers(self) -> None:
        """They order protected writes and the reads behind them."""
        writes = any(_TO_GLOBAL.search(node.name) or WRITES.search(node.name) for node in self._why)
        for node in self._graph.nodes if writes else ():
            info = info_of(node.op)
            if info is not None and info.cls == "barrier":
                self._why.setdefault(node, "an address or a branch rests on what it orders")


class _Memory:
    """Which of the kernel's arguments values point into."""

    def __init__(self, graph: Graph, alike: Mapping[int, int]) -> None:
        self._graph = graph
        self._alike = alike

    def behind(self, values: Iterable[Value]) -> set[int] | None:
        """By number, those with overlapping memory as one; None if that is not known. What was loaded is no
        pointer into what it was loaded from."""
        found = set[int]()
        for value in self._graph.behind(values, lambda node: not _reads(node)):
            made = value.maker
            if made is not None and (made.name == "tt.int_to_ptr" or (_is_pointer(value) and _reads(made))):
                return None
            if _is_argument(value) and _is_pointer(value):
                found.add(self._alike.get(value.index, value.index))
        return found

    def written(self) -> set[int] | None:
        """By all of the kernel's ops."""
        pointers = [
            each for node in self._graph.nodes if _TO_GLOBAL.search(node.name)
            for each in node.operands if _is_pointer(each)
        ]  # fmt: skip
        return self.behind(pointers)


def _roots(graph: Graph) -> Iterator[tuple[str, list[Value]]]:
    """What must stay, by the reason."""
    for node in graph.nodes:
        operands = node.operands
        if node.name == "scf.for":
            yield f"a loop's bounds{_line(node)} rest on it", operands[:FOR_BOUNDS]
        elif node.name in ("scf.if", "cf.cond_br", "cf.switch", "scf.condition", "scf.index_switch"):
            yield f"a branch{_line(node)} rests on it", operands[:1]
        elif node.name in _ASSERTS:
            yield f"an assertion or a print{_line(node)} rests on it", operands
        elif is_impure(node):
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


def _is_argument(value: Value) -> bool:
    """Of the kernel: an argument of a function that no call gives."""
    around = value.around
    return value.maker is None and around is not None and around.name == "tt.func" and not value.sources


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


def _line(node: Node) -> str:
    return f" at line {node.line}" if node.line else ""


def _at(node: Node) -> str:
    return f"line {node.line}: " if node.line else ""
