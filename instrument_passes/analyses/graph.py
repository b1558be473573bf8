"""The def-use graph of a module: makers, users and dependences of values.

    graph = Graph(parse(text))
    graph.depends(load.operands[0]).axes        # {"x"}: the address differs along the grid's x axis

A value's `sources` are the values it is computed from, one step back: operands; the values that loops,
branches and calls pass on; the values written into a buffer of shared memory. Everything else here follows
from that one relation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from profscope.instrument_passes.analyses.values import (
    AXES,
    DIVISIONS,
    FOR_BOUNDS,
    LOOPS,
    WRITES,
    Dependence,
    Dependences,
    Node,
    Value,
    element_bytes,
    size_of,
)
from profscope.instrument_passes.ir.model import Block, Module, Op, Region

__all__ = ["AXES", "DIVISIONS", "LOOPS", "Dependence", "Graph", "Node", "Value", "element_bytes", "size_of"]

_VIEWS: Final = re.compile(r"ttg\.memdesc_\w+$|tt\.trans$")
"""Ops that make a part or another shape of a buffer."""
_MOVES: Final = re.compile(
    r"ttg\.(convert_layout|local_alloc|memdesc_\w+)$|tt\.(broadcast|expand_dims|reshape|trans|split|join|cat)$"
)
_SAME_NUMBER: Final = ("tt.splat", "tt.broadcast", "tt.expand_dims", "arith.extsi", "arith.extui")


class Graph:
    """The graph of a parsed module. nodes: its ops in order."""

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
        self._facts = Dependences(self.nodes, self._arguments.values())

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

    def block_arguments(self, region: Region, label: str = "") -> list[Value]:
        """Those of the block with this label; "": of all that branches lead to."""
        blocks = [each for each in region.blocks[1:] if label in ("", each.label)]
        return [value for block in blocks for value in self._arguments[block]]

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
        """The dependencies of these values, through everything."""
        return self._facts.of(values, "all")

    def positions(self, *values: Value) -> Dependence:
        """The same without what loads and products were computed from, and without the bounds of counters:
        data is data, and a step is a step."""
        return self._facts.of(values, "positions")

    def behind(
        self, values: Iterable[Value], through: Callable[[Node], bool] = lambda node: True
    ) -> Iterator[Value]:
        """These values and what they are computed from, each once. through: whether to go on behind an op."""
        left, seen = list(values), set[Value]()
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            yield value
            if value.maker is None or through(value.maker):
                left += value.sources

    def backward(
        self, values: Iterable[Value], through: Callable[[Node], bool] = lambda node: True
    ) -> list[Node]:
        """The ops that make these values, and what those are computed from, each once. through: as of
        `behind`."""
        makers = (value.maker for value in self.behind(values, through))
        return list(dict.fromkeys(maker for maker in makers if maker is not None))

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

    def layout(self, kind: str) -> str:
        """The module's layout of a tensor type; "" of others."""
        return self.module.aliases.get("#" + kind.rpartition("#")[2].rstrip(">"), "")

    def constant(self, value: Value) -> int | None:
        """The integer that a value is in every element; None if that is not known."""
        made = self.maker(value, lambda node: node.name in _SAME_NUMBER)
        if made is None or made.name != "arith.constant":
            return None
        number = re.search(r"(?:dense<|constant )(-?\d+)\b(?!\.)", made.text)
        return int(number[1]) if number else None

    def number(self, value: Value) -> int:
        """Equal for values that are computed in the same way from the same: what a loop carries, a load or a
        branch gives is equal to itself only, the counters of loops with equal bounds are equal."""
        return self._facts.number(value)

    @staticmethod
    def moves(node: Node) -> bool:
        """Whether an op passes elements on as they are, in another place or shape."""
        return _MOVES.match(node.name) is not None


def _line_of(op: Op) -> int:
    loc = op.loc
    places = [(loc.file, loc.line), *((caller.file, caller.line) for caller in loc.callers)]
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
    if WRITES.search(node.name):
        for operand in node.operands:
            if (buffer := graph.buffer(operand)) is not None:
                buffer.results[0].sources += [each for each in node.operands if each is not operand]


def _link_for(graph: Graph, node: Node) -> None:
    arguments = graph.arguments(node)
    carried = arguments[1:]
    inits = node.operands[FOR_BOUNDS:]
    for counter in arguments[:1]:
        counter.sources += node.operands[:FOR_BOUNDS]
    _link(carried, inits)
    _link(node.results, inits)
    for end in graph.ends(node):
        _link(carried, end.operands)
        _link(node.results, end.operands)
    for value in node.results:  # after as many steps
        value.sources += node.operands[:FOR_BOUNDS]


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
    region = node.op.parent.parent if node.op.parent is not None else None
    if region is None:
        return
    names = dict(zip(node.op.operands, node.operands, strict=False))
    for label, passed in node.op.successors:
        _link(graph.block_arguments(region, label), [names[name] for name in passed if name in names])
    if node.name == "cf.br":
        return
    for value in graph.block_arguments(region):
        value.sources += node.operands[:1]  # which block a value comes from may rest on any condition


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
