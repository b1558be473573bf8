"""The def-use graph of a module: who makes a value, who uses it, and what it depends on.

    graph = Graph(parse(text))
    graph.depends(load.operands[0]).axes        # {"x"}: the address differs along the grid's x axis

A value's `sources` are what it is computed from, one step back: operands; through loops, branches and calls,
what they hand on; through shared memory, what was written into the buffer. Everything else here follows from
that one relation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from profscope.instrument_passes.ir.model import Block, Module, Op, Region
from profscope.instrument_passes.ir.signature import element_type, elements

__all__ = ["AXES", "LOOPS", "Dependence", "Graph", "Node", "Value", "element_bytes", "size_of"]

AXES: Final = ("x", "y", "z")
"""Of a grid."""
LOOPS: Final = ("scf.for", "scf.while")
_BITS: Final = re.compile(r"[a-zA-Z]+(\d+)")
_FOR_BOUNDS: Final = 3  # operands of scf.for in front of what it carries: lower, upper, step
_ADDS: Final = ("arith.addi", "tt.addptr")
_DIVISIONS: Final = re.compile(r"arith\.(div|rem|floordiv|ceildiv)[su]i$")
_LOADS: Final = re.compile(
    r"tt\.(load|descriptor_load|descriptor_gather)$|ttg\.async_copy_global_to_local$"
    r"|ttng\.async_tma_(copy_global_to_local|gather)$"
)
_DOTS: Final = re.compile(r"tt\.dot(_scaled)?$|warp_group_dot$|tc_gen5_mma(_scaled)?$")
_ATOMICS: Final = re.compile(r"tt\.atomic_")
_ASSEMBLY: Final = "tt.elementwise_inline_asm"
_WRITES: Final = re.compile(
    r"ttg\.(local_store|async_copy_global_to_local)$|async_tma_\w+_to_local$|tmem_store$"
)
_VIEWS: Final = re.compile(r"ttg\.memdesc_\w+$|tt\.trans$")
"""Ops that make a part or another shape of a buffer."""
_POINTERS: Final = ("!tt.ptr", "!tt.tensordesc")


def size_of(kind: str) -> int:
    """How many elements a tensor in registers has; 0 of any other type."""
    return elements(kind) if kind.startswith("tensor<") else 0


def element_bytes(kind: str) -> float:
    """Of an element of a tensor, or of a scalar; infinite if the type does not tell."""
    bits = _BITS.fullmatch(element_type(kind))
    return int(bits[1]) / 8 if bits else float("inf")


@dataclass(eq=False)
class Value:
    """A result of `maker`, or, if that is None, an argument of a block of `around`, number `index`."""

    type: str
    index: int
    maker: Node | None
    around: Node | None
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

    @property
    def carrier(self) -> Node | None:
        """The loop that carries it from step to step, if it is a block argument of one."""
        is_argument = self.maker is None and self.around is not None and self.around.name in LOOPS
        return self.around if is_argument and not self.is_counter else None


@dataclass(eq=False)
class Node:
    """An op. around: the ops it is in, the innermost first. line: in the kernel's file, of a function of
    another file that was inlined there where it is called; 0 if unknown."""

    op: Op
    name: str
    line: int
    around: tuple[Node, ...]
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)

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


@dataclass(frozen=True)
class Dependence:
    """What a value rests on.

    axes: those of the grid along which it may differ. lanes: whether it differs between elements of a tensor
    by position. counters: loops whose counter moves it, directly or by what they add up. varies_in: loops in
    which a later step may have another one. loads: ops that load what it is computed from; of_data: whether
    there are any, or products; of_lane_data: whether these are tensors. is_divided, is_rounded: whether a
    division of tensors, or a conversion of a tensor from floating point, is in it. arguments: positions of
    the kernel's pointers; None if some pointer is not an argument.
    """

    axes: frozenset[str]
    lanes: bool
    counters: frozenset[Node]
    varies_in: frozenset[Node]
    loads: frozenset[Node]
    of_data: bool
    of_lane_data: bool
    of_products: bool
    is_divided: bool
    has_division: bool
    is_rounded: bool
    arguments: frozenset[int] | None

    @property
    def is_constant(self) -> bool:
        """Whether all programs, lanes and steps have the same, which no memory tells."""
        return not (self.axes or self.lanes or self.varies_in or self.of_data)


class Graph:
    """Of a parsed module. nodes: its ops in order."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes: list[Node] = []
        self._of_op: dict[Op, Node] = {}
        self._arguments: dict[Block, list[Value]] = {}
        for function in module.functions:
            self._add(function, ())
        for function in module.functions:
            self._resolve(function, {})
        for node in self.nodes:
            _LINKS.get(node.name, _link_plain)(self, node)
        for node in self.nodes:
            for value in node.operands:
                value.users.append(node)
        self._facts = _Facts(self)

    # Building: nodes and values, then names, then sources.

    def _add(self, op: Op, around: tuple[Node, ...]) -> None:
        node = Node(op, op.name, _line_of(op), around)
        node.results = [Value(each.type, each.index, node, None) for each in op.results]
        self.nodes.append(node)
        self._of_op[op] = node
        for region in op.regions:
            for block in region.blocks:
                self._arguments[block] = [Value(each.type, each.index, None, node) for each in block.args]
                for inner in block.ops:
                    self._add(inner, (node, *around))

    def _resolve(self, op: Op, names: dict[str, Value]) -> None:
        node = self._of_op[op]
        node.operands = [names[name] for name in op.operands if name in names]
        for region in op.regions:
            inside = {} if region.isolated else dict(names)
            inside |= self._defined(region)
            for block in region.blocks:
                for inner in block.ops:
                    self._resolve(inner, inside)

    def _defined(self, region: Region) -> dict[str, Value]:
        found = {}
        for name, (owner, index) in self.module.definitions(region).items():
            values = self._of_op[owner].results if isinstance(owner, Op) else self._arguments[owner]
            found[name] = values[index]
        return found

    def arguments(self, node: Node, region: int = 0) -> list[Value]:
        """The arguments of a region's first block."""
        regions = node.op.regions
        return self._arguments[regions[region].entry] if region < len(regions) else []

    def ends(self, node: Node, region: int = 0) -> list[Node]:
        """The last op of each block of a region."""
        regions = node.op.regions
        blocks = regions[region].blocks if region < len(regions) else []
        return [self._of_op[block.ops[-1]] for block in blocks if block.ops]

    def block_arguments(self, op: Op, label: str) -> list[Value]:
        region = op.parent.parent if op.parent is not None else None
        blocks = region.blocks if region is not None else []
        return next((self._arguments[each] for each in blocks if each.label == label), [])

    def function(self, symbol: str | None) -> Node | None:
        return next(
            (each for each in self.nodes if each.name == "tt.func" and each.op.symbol == symbol), None
        )

    # Asking.

    def inside(self, node: Node) -> list[Node]:
        """All ops in an op, itself left out."""
        return [each for each in self.nodes if node in each.around]

    def named(self, pattern: str, *, loop: bool = False) -> list[Node]:
        """The ops whose name has this; loop: in a loop."""
        return [each for each in self.nodes if re.search(pattern, each.name) and (not loop or each.loops)]

    def lines(self, pattern: str, *, loop: bool = False) -> set[int]:
        """Their lines."""
        return {each.line for each in self.named(pattern, loop=loop)} - {0}

    def depends(self, *values: Value) -> Dependence:
        """What these values depend on, through everything."""
        return self._facts.of(values, "all")

    def positions(self, *values: Value) -> Dependence:
        """The same without what loads and products were computed from, and without the bounds of counters:
        data is data, and a step is a step."""
        return self._facts.of(values, "positions")

    def distinct(self, *values: Value) -> Dependence:
        """The same without what was divided: along these axes, and only these, every program has another
        one, as far as data does not tell otherwise."""
        return self._facts.of(values, "distinct")

    def backward(
        self, values: Iterable[Value], through: Callable[[Node], bool] = lambda node: True
    ) -> list[Node]:
        """The ops that make these values, and what those are computed from, each once. through: whether to go
        on behind an op."""
        left, seen, found = list(values), set[Value](), dict[Node, None]()
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.maker is not None:
                found[value.maker] = None
                if not through(value.maker):
                    continue
            left += value.sources
        return list(found)

    def forward(self, node: Node, through: Callable[[Node], bool]) -> Iterator[Node]:
        """The ops that use an op's results, and of those that `through` accepts the users, each once."""
        left, seen = [node], {node}
        while left:
            for user in (user for value in left.pop().results for user in value.users):
                if user not in seen:
                    seen.add(user)
                    yield user
                    if through(user):
                        left.append(user)

    def maker(self, value: Value, through: Callable[[Node], bool]) -> Node | None:
        """The op that makes a value, behind ops that pass on their first operand."""
        made = value.maker
        while made is not None and through(made):
            made = made.operands[0].maker if made.operands else None
        return made

    def buffer(self, value: Value) -> Node | None:
        """The allocation of shared memory that a value is a part of; None if it is of none that others
        fill."""
        made = self.maker(value, lambda node: _VIEWS.search(node.name) is not None)
        return made if made is not None and made.name == "ttg.local_alloc" and not made.operands else None

    def copies_into(self, buffer: Node) -> list[Node]:
        """The ops that copy from global memory into a buffer."""
        return [each for each in self.nodes if _WRITES.search(each.name) and _LOADS.search(each.name)
                and any(self.buffer(operand) is buffer for operand in each.operands)]  # fmt: skip

    def layout(self, kind: str) -> str:
        """What the module says of the layout of a tensor type; "" of others."""
        return self.module.aliases.get("#" + kind.rpartition("#")[2].rstrip(">"), "")

    def constant(self, value: Value) -> int | None:
        """The integer that a value is in every element; None if that is not known."""
        affine = self.affine(value)
        return affine[None] if affine is not None and len(affine) == 1 else None

    def affine(self, value: Value) -> dict[Value | None, int] | None:
        """A value as a sum: by value its integer factor, by None the constant; None if it is no such sum of
        what is neither loaded nor computed otherwise."""
        made = value.maker
        if made is None or made.name in ("tt.make_range", "tt.get_program_id"):
            return {value: 1, None: 0}
        if made.name == "arith.constant":
            number = re.search(r"(?:dense<|constant )(-?\d+)\b(?!\.)", made.text)
            return {None: int(number[1])} if number else None
        if made.name in ("tt.splat", "tt.broadcast", "tt.expand_dims", "arith.extsi", "arith.extui"):
            return self.affine(made.operands[0])
        if made.name not in ("arith.addi", "arith.subi", "arith.muli", "tt.addptr") or len(made.operands) < 2:
            return {value: 1, None: 0}
        first, second = (self.affine(each) for each in made.operands[:2])
        if first is None or second is None:
            return None
        if made.name == "arith.muli":
            factor, other = (first, second) if len(first) == 1 else (second, first)
            return (
                {key: each * factor[None] for key, each in other.items()}
                if len(factor) == 1
                else {value: 1, None: 0}
            )
        sign = -1 if made.name == "arith.subi" else 1
        total = {key: first.get(key, 0) + sign * second.get(key, 0) for key in {**first, **second}}
        return {key: each for key, each in total.items() if each or key is None}

    def number(self, value: Value) -> int:
        """Equal for values that are computed in the same way from the same: what a loop carries, a load or a
        branch gives is equal to itself only, the counters of loops with equal bounds are equal."""
        return self._facts.number(value)

    @cached_property
    def moves(self) -> Callable[[Node], bool]:
        """Whether an op passes elements on as they are, in another place or shape."""
        return lambda node: _MOVES.match(node.name) is not None


_MOVES: Final = re.compile(
    r"ttg\.(convert_layout|local_alloc|memdesc_\w+)$|tt\.(broadcast|expand_dims|reshape|trans|split|join|cat)$"
)


def _line_of(op: Op) -> int:
    places = [(op.loc.file, op.loc.line), *((caller.file, caller.line) for caller in op.loc.callers)]
    return next(line for file, line in places if file == places[-1][0])


# By op, the sources of its results and of its blocks' arguments.


def _link(values: Iterable[Value], *sources: Iterable[Value]) -> None:
    for value, *of in zip(values, *sources, strict=False):
        value.sources += of


def _link_plain(graph: Graph, node: Node) -> None:
    """Results and the arguments of regions, such as a reduction's, come from operands; so does what a write
    puts into a buffer."""
    for value in (*node.results, *graph.arguments(node)):
        value.sources += node.operands
    if _WRITES.search(node.name):
        for operand in node.operands:
            if (buffer := graph.buffer(operand)) is not None:
                buffer.results[0].sources += [each for each in node.operands if each is not operand]


def _link_for(graph: Graph, node: Node) -> None:
    arguments = graph.arguments(node)
    carried = arguments[1:]
    inits = node.operands[_FOR_BOUNDS:]
    for counter in arguments[:1]:
        counter.sources += node.operands[:_FOR_BOUNDS]
    _link(carried, inits)
    _link(node.results, inits)
    for end in graph.ends(node):
        _link(carried, end.operands)
        _link(node.results, end.operands)


def _link_while(graph: Graph, node: Node) -> None:
    before, after = graph.arguments(node, 0), graph.arguments(node, 1)
    _link(before, node.operands)
    for end in graph.ends(node, 0):  # scf.condition(%go) %values
        _link(after, end.operands[1:])
        _link(node.results, end.operands[1:])
        for value in (*after, *node.results):
            value.sources += end.operands[:1]
    for end in graph.ends(node, 1):
        _link(before, end.operands)


def _link_if(graph: Graph, node: Node) -> None:
    for region in range(len(node.op.regions)):
        for end in graph.ends(node, region):
            _link(node.results, end.operands)
    for value in node.results:
        value.sources += node.operands[:1]


def _link_branch(graph: Graph, node: Node) -> None:
    names = dict(zip(node.op.operands, node.operands, strict=False))
    for label, passed in node.op.successors:
        arguments = graph.block_arguments(node.op, label)
        _link(arguments, [names[name] for name in passed if name in names])
        if node.name == "cf.cond_br":
            for value in arguments:
                value.sources += node.operands[:1]


def _link_call(graph: Graph, node: Node) -> None:
    callee = graph.function(node.op.symbol)
    if callee is None:
        _link_plain(graph, node)
        return
    _link(graph.arguments(callee), node.operands)
    for end in graph.ends(callee):
        _link(node.results, end.operands)


def _link_specialize(graph: Graph, node: Node) -> None:
    for region in range(1, len(node.op.regions)):
        _link(graph.arguments(node, region), node.operands)
    for end in graph.ends(node):
        _link(node.results, end.operands)


def _link_nothing(graph: Graph, node: Node) -> None:
    """A function's arguments come from its calls."""


_LINKS: Final[dict[str, Callable[[Graph, Node], None]]] = {
    "scf.for": _link_for, "scf.while": _link_while, "scf.if": _link_if, "cf.br": _link_branch,
    "cf.cond_br": _link_branch, "cf.switch": _link_branch, "tt.call": _link_call,
    "ttg.warp_specialize": _link_specialize, "tt.func": _link_nothing,
}  # fmt: skip


# The lattice: sets of properties as bits of an integer, joined along `sources` until nothing changes.

_LANES, _DATA, _LANE_DATA, _PRODUCT, _DIVIDED, _DIVISION, _ROUNDED, _NO_ARGUMENT = (
    1 << at for at in range(8)
)
_AXES: Final = {axis: 1 << 8 + at for at, axis in enumerate(AXES)}
_FIRST_FREE: Final = 8 + len(AXES)


class _Facts:
    """What values depend on, in three readings (see `Graph`), and their numbers."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._bits: dict[tuple[str, object], int] = {}
        self._values = [
            *(each for node in graph.nodes for each in node.results),
            *(each for values in graph._arguments.values() for each in values),
        ]
        self._own = {value: self._origin(value) for value in self._values}
        self._joined: dict[str, dict[Value, int]] = {}
        self._numbers: dict[object, int] = {}
        self._known: dict[Value, int] = {}

    def _bit(self, kind: str, key: object) -> int:
        return self._bits.setdefault((kind, key), 1 << _FIRST_FREE + len(self._bits))

    def _origin(self, value: Value) -> int:
        """The bits that a value brings in itself."""
        node, bits = value.maker, 0
        if node is None:
            around = value.around
            assert around is not None
            if value.is_counter:
                return self._bit("counter", around) | self._bit("varies", around)
            if around.name in LOOPS:
                bits = self._varying((around, *around.loops))
                return bits | (self._bit("counter", around) if _is_advanced(value) else 0)
            is_kernel = around.name == "tt.func" and " private " not in around.op.first_line
            if is_kernel and value.type.startswith(_POINTERS):
                bits |= self._bit("argument", value.index)
            return bits
        is_tensor = size_of(value.type) > 0
        if node.name == "tt.get_program_id":
            bits |= _AXES[node.text.partition("get_program_id ")[2][:1]]
        elif node.name == "tt.make_range":
            bits |= _LANES
        elif _ATOMICS.match(node.name) or node.name == _ASSEMBLY:
            bits |= sum(_AXES.values())
        elif node.name == "tt.int_to_ptr":
            bits |= _NO_ARGUMENT
        elif _DIVISIONS.match(node.name):
            bits |= _DIVISION | (_DIVIDED if is_tensor else 0)
        elif node.name == "arith.fptosi" and is_tensor:
            bits |= _ROUNDED
        if _LOADS.search(node.name):
            bits |= self._bit("load", node)
        if _is_data(node):
            bits |= _DATA | (_LANE_DATA if is_tensor else 0) | (_PRODUCT if _DOTS.search(node.name) else 0)
        if _LOADS.search(node.name) or _ATOMICS.match(node.name) or node.op.regions:
            bits |= self._varying(node.loops)
        return bits

    def _varying(self, loops: Iterable[Node]) -> int:
        bits = 0
        for loop in loops:
            bits |= self._bit("varies", loop)
        return bits

    def _cuts(self, value: Value, reading: str) -> bool:
        """Whether a reading does not look behind a value."""
        node = value.maker
        if reading == "all":
            return False
        if node is None:
            return reading == "positions" and value.is_counter
        if reading == "positions":
            return _is_data(node)
        return node.name == "tt.load" or _DIVISIONS.match(node.name) is not None

    def _join(self, reading: str) -> dict[Value, int]:
        found = dict(self._own)
        copies = {
            node: self._bit("load", node)
            for node in self._nodes if _LOADS.search(node.name) and _WRITES.search(node.name)
        }  # fmt: skip
        for node, bit in copies.items():  # their result is a token; what they load is in the buffer
            for operand in node.operands:
                if operand.type.startswith("!ttg.memdesc"):
                    found[operand] |= bit | self._varying(node.loops)
                    for source in operand.sources:
                        if source.type.startswith("!ttg.memdesc"):
                            found[source] |= bit | self._varying(node.loops)
        open_values = [each for each in self._values if not self._cuts(each, reading)]
        changed = True
        while changed:
            changed = False
            for value in open_values:
                bits = found[value]
                for source in value.sources:
                    bits |= found[source]
                if bits != found[value]:
                    found[value] = bits
                    changed = True
        return found

    def of(self, values: Iterable[Value], reading: str) -> Dependence:
        if reading not in self._joined:
            self._joined[reading] = self._join(reading)
        bits = 0
        for value in values:
            bits |= self._joined[reading][value]
        named: dict[str, set[object]] = {"counter": set(), "varies": set(), "load": set(), "argument": set()}
        for (kind, key), bit in self._bits.items():
            if bits & bit:
                named[kind].add(key)
        return Dependence(
            axes=frozenset(axis for axis, bit in _AXES.items() if bits & bit),
            lanes=bool(bits & _LANES),
            counters=frozenset(named["counter"]),  # type: ignore[arg-type]
            varies_in=frozenset(named["varies"]),  # type: ignore[arg-type]
            loads=frozenset(named["load"]),  # type: ignore[arg-type]
            of_data=bool(bits & _DATA) or bool(named["load"]),
            of_lane_data=bool(bits & _LANE_DATA),
            of_products=bool(bits & _PRODUCT),
            is_divided=bool(bits & _DIVIDED),
            has_division=bool(bits & _DIVISION),
            is_rounded=bool(bits & _ROUNDED),
            arguments=None if bits & _NO_ARGUMENT else frozenset(named["argument"]),  # type: ignore[arg-type]
        )

    def number(self, value: Value) -> int:
        if value not in self._known:
            self._known[value] = self._numbers.setdefault(self._computation(value), len(self._numbers))
        return self._known[value]

    def _computation(self, value: Value) -> object:
        node = value.maker
        if node is None:
            if value.is_counter and value.around is not None:
                return "counter", *map(self.number, value.around.operands[:_FOR_BOUNDS])
            return value
        if node.op.regions or _is_data(node) or _ATOMICS.match(node.name):
            return value
        return _NAMES.sub("%", node.text), value.index, *map(self.number, node.operands)


_NAMES: Final = re.compile(r"%[\w#:-]+")


def _is_data(node: Node) -> bool:
    """Whether an op brings data in: a load, from global or shared memory, or a product."""
    return node.name == "ttg.local_load" or bool(_LOADS.search(node.name) or _DOTS.search(node.name))


def _is_advanced(value: Value) -> bool:
    """Whether each step adds something to a value that a loop carries."""
    return any(
        source.maker is not None and source.maker.name in _ADDS and value in source.maker.operands
        for source in value.sources
    )
