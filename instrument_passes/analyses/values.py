"""Ops and values of a module as `graph` links them: makers, users and dependences."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from profscope.instrument_passes.ir.model import Op
from profscope.instrument_passes.ir.signature import element_type, elements

__all__ = [
    "ATOMICS", "AXES", "DIVISIONS", "FOR_BOUNDS", "LOOPS", "POINTERS", "WRITES", "Dependence", "Dependences",
    "Node", "Value", "element_bytes", "size_of",
]  # fmt: skip

AXES: Final = ("x", "y", "z")
"""Of a grid."""
LOOPS: Final = ("scf.for", "scf.while")
_BITS: Final = re.compile(r"[a-zA-Z]+(\d+)")
FOR_BOUNDS: Final = 3  # operands of scf.for in front of what it carries: lower, upper, step
ADDS: Final = ("arith.addi", "tt.addptr")
DIVISIONS: Final = re.compile(r"arith\.(div|rem|floordiv|ceildiv)[su]i$")
LOADS: Final = re.compile(
    r"tt\.(load|descriptor_load|descriptor_gather)$|ttg\.async_copy_global_to_local$"
    r"|ttng\.async_tma_(copy_global_to_local|gather)$"
)
PRODUCTS: Final = re.compile(r"tt\.dot(_scaled)?$|warp_group_dot$|tc_gen5_mma(_scaled)?$")
ATOMICS: Final = re.compile(r"tt\.atomic_")
ASSEMBLY: Final = "tt.elementwise_inline_asm"
WRITES: Final = re.compile(
    r"ttg\.(local_store|async_copy_global_to_local)$|async_tma_\w+_to_local$|tmem_store$"
)
POINTERS: Final = ("!tt.ptr", "!tt.tensordesc")
_BRINGS: Final = {"tt.make_range": "lane", "tt.int_to_ptr": "no argument"}
_IMPURE: Final = re.compile(r"tt\.(atomic_|call$|elementwise_inline_asm$)")
_NAMES: Final = re.compile(r"%[\w#:-]+")  # of values in an op's text


def size_of(kind: str) -> int:
    """How many elements a tensor in registers has; 0 of any other type."""
    return elements(kind) if kind.startswith("tensor<") else 0


def element_bytes(kind: str) -> float:
    """Bytes of an element of a tensor, or of a scalar; infinite if the type does not tell."""
    bits = _BITS.fullmatch(element_type(kind))
    return int(bits[1]) / 8 if bits else float("inf")


@dataclass(eq=False)
class Value:
    """A result of `maker`, or, if that is None, an argument of a block of `around`, number `index`."""

    type: str
    index: int
    maker: Node | None = field(repr=False)
    around: Node | None = field(repr=False)
    sources: list[Value] = field(default_factory=list, repr=False)
    users: list[Node] = field(default_factory=list, repr=False)

    @property
    def is_counter(self) -> bool:
        """Whether it counts the steps of a loop."""
        return (
            self.maker is None
            and self.index == 0
            and self.around is not None
            and self.around.name == LOOPS[0]
        )


@dataclass(eq=False)
class Node:
    """An op. around: the ops it is in, the innermost first. line: in the kernel's file, of a function of
    another file that was inlined there where it is called; 0 if unknown."""

    op: Op
    name: str
    line: int
    around: tuple[Node, ...] = field(repr=False)
    operands: list[Value] = field(default_factory=list, repr=False)
    results: list[Value] = field(default_factory=list, repr=False)

    @cached_property
    def text(self) -> str:
        """The op's own text, up to its location."""
        return self.op.text.split(" loc(", 1)[0].strip()

    @cached_property
    def loops(self) -> tuple[Node, ...]:
        """The loops it is in, the innermost first."""
        return tuple(each for each in self.around if each.name in LOOPS)

    @property
    def loop(self) -> Node | None:
        return self.loops[0] if self.loops else None

    def is_in(self, other: Node) -> bool:
        """Whether it is `other`, or anywhere inside."""
        return other is self or other in self.around

    @property
    def size(self) -> int:
        """Elements of its largest result in registers."""
        return max((size_of(each.type) for each in self.results), default=0)


def is_data(node: Node) -> bool:
    """Whether an op brings data in: a load, from global or shared memory, or a product."""
    return node.name == "ttg.local_load" or bool(LOADS.search(node.name) or PRODUCTS.search(node.name))


# What values rest on: a lattice of sets of facts, which are joined along `sources` until nothing changes.

_Fact = tuple[str, Any]
"""A kind, and what it is of: ("axis", "x"), ("load", node)."""
_Facts = frozenset[_Fact]


class Dependence:
    """Dependences of a value.

    axes: those of the grid along which it may differ. by_lane: whether it differs between elements of a
    tensor by position. counters: loops whose counter moves it, directly or by sums. varies_in: loops in which
    a later step may have another value. loads: the loads that it is computed from; of_data: whether there are
    any, or products; of_lane_data: whether these are tensors. has_division: whether a division of integers is
    in it. arguments: positions of the kernel's pointers; None if some pointer is not an argument.
    """

    def __init__(self, facts: Iterable[_Fact]) -> None:
        found: defaultdict[str, set[Any]] = defaultdict(set)
        for kind, key in facts:
            found[kind].add(key)
        self.axes: frozenset[str] = frozenset(found["axis"])
        self.by_lane = bool(found["lane"])
        self.counters: frozenset[Node] = frozenset(found["counter"])
        self.varies_in: frozenset[Node] = frozenset(found["varies"])
        self.loads: frozenset[Node] = frozenset(found["load"])
        self.of_data = bool(found["load"] or found["data"])
        self.of_lane_data = bool(found["lane data"])
        self.has_division = bool(found["division"])
        arguments: frozenset[int] = frozenset(found["argument"])
        self.arguments = None if found["no argument"] else arguments


def _own_facts(value: Value) -> Iterator[_Fact]:
    """Those that a value brings in itself."""
    node, is_tensor = value.maker, size_of(value.type) > 0
    if node is None:
        around = value.around
        assert around is not None
        if value.is_counter:
            yield from (("counter", around), ("varies", around))
        elif around.name in LOOPS:
            yield from (("varies", loop) for loop in (around, *around.loops))
            if _is_advanced(value):
                yield "counter", around
        elif value.type.startswith(POINTERS) and _is_kernel(around):
            yield "argument", value.index
        return
    if node.name == "tt.get_program_id":
        yield "axis", node.text.partition("get_program_id ")[2][:1]
    elif ATOMICS.match(node.name) or node.name == ASSEMBLY:
        yield from (("axis", axis) for axis in AXES)
        yield from [("lane", None)] * is_tensor
    elif node.name in _BRINGS:
        yield _BRINGS[node.name], None
    elif DIVISIONS.match(node.name):
        yield "division", None
    if is_data(node):
        yield "data", None
        yield from [("lane data", None)] * is_tensor
    is_load = LOADS.search(node.name) is not None
    if is_load:
        yield "load", node
    if is_load or ATOMICS.match(node.name) or node.op.regions or node.name == "tt.call":
        yield from (("varies", loop) for loop in node.loops)


class Dependences:
    """The dependencies of values, in two readings (see `Graph`), and their numbers."""

    def __init__(self, nodes: list[Node], arguments: Iterable[list[Value]]) -> None:
        self._nodes = nodes
        self._values = [
            *(each for node in nodes for each in node.results),
            *(each for values in arguments for each in values),
        ]
        self._own: dict[Value, _Facts] = {value: frozenset(_own_facts(value)) for value in self._values}
        for node in nodes:  # the result of a copy is a token; what it loads is in the buffer
            if LOADS.search(node.name) and WRITES.search(node.name):
                facts = {("load", node), *(("varies", loop) for loop in node.loops)}
                buffers = list(filter(_is_buffer, node.operands))
                for value in (*buffers, *(each for of in buffers for each in filter(_is_buffer, of.sources))):
                    self._own[value] |= facts
        self._joined: dict[str, dict[Value, _Facts]] = {}
        self._numbers: dict[object, int] = {}
        self._known: dict[Value, int] = {}

    def _cuts(self, value: Value, reading: str) -> bool:
        """Whether a reading does not look behind a value."""
        if reading == "all":
            return False
        return value.is_counter if value.maker is None else is_data(value.maker)

    def _join(self, reading: str) -> dict[Value, _Facts]:
        found = dict(self._own)
        open_values = [each for each in self._values if not self._cuts(each, reading)]
        changed = True
        while changed:
            changed = False
            for value in open_values:
                facts = found[value].union(*(found[source] for source in value.sources))
                if len(facts) > len(found[value]):
                    found[value] = facts
                    changed = True
        return found

    def of(self, values: Iterable[Value], reading: str) -> Dependence:
        if reading not in self._joined:
            self._joined[reading] = self._join(reading)
        return Dependence(fact for value in values for fact in self._joined[reading][value])

    def number(self, value: Value) -> int:
        if not self._known:
            for node in self._nodes:
                for result in node.results:
                    self._numbered(result)
        return self._numbered(value)

    def _numbered(self, value: Value) -> int:
        if value not in self._known:
            self._known[value] = self._numbers.setdefault(self._computation(value), len(self._numbers))
        return self._known[value]

    def _computation(self, value: Value) -> object:
        """Of nested loops with equal bounds the counters differ."""
        node = value.maker
        if node is None:
            if value.is_counter and value.around is not None:
                loop = value.around
                return "counter", len(loop.loops), *map(self._operand, loop.operands[:FOR_BOUNDS])
            return value
        if node.op.regions or is_data(node) or _IMPURE.match(node.name):
            return value
        return _NAMES.sub("%", node.text), value.index, *map(self._operand, node.operands)

    def _operand(self, value: Value) -> object:
        """Its number; of what is computed in a block that is printed later, the value itself."""
        return self._numbered(value) if value in self._known or value.maker is None else value


def _is_kernel(node: Node) -> bool:
    return node.name == "tt.func" and " private " not in node.op.first_line


def _is_buffer(value: Value) -> bool:
    return value.type.startswith("!ttg.memdesc")


def _is_advanced(value: Value) -> bool:
    """Whether each step adds something to a value that a loop carries."""
    return any(
        source.maker is not None and source.maker.name in ADDS and value in source.maker.operands
        for source in value.sources
    )
