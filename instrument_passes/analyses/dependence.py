"""What values rest on: axes of the grid, lanes, loops, data.

A lattice: sets of properties as bits of an integer, joined along `sources` until nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from profscope.instrument_passes.analyses.values import (
    ADDS,
    ASSEMBLY,
    ATOMICS,
    AXES,
    DIVISIONS,
    FOR_BOUNDS,
    LOADS,
    LOOPS,
    POINTERS,
    WRITES,
    Node,
    Value,
    is_data,
    size_of,
)  # fmt: skip

__all__ = ["Dependence", "Dependences"]

_LANES, _DATA, _LANE_DATA, _DIVISION, _NO_ARGUMENT = (1 << at for at in range(5))
_AXES: Final = {axis: 1 << 5 + at for at, axis in enumerate(AXES)}
_FIRST_FREE: Final = 5 + len(AXES)


@dataclass(frozen=True)
class Dependence:
    """What a value rests on.

    axes: those of the grid along which it may differ. by_lane: whether it differs between elements of a
    tensor by position. counters: loops whose counter moves it, directly or by what they add up. varies_in:
    loops in which a later step may have another one. loads: ops that load what it is computed from; of_data:
    whether there are any, or products; of_lane_data: whether these are tensors. has_division: whether a
    division of integers is in it. arguments: positions of the kernel's pointers; None if some pointer is not
    an argument.
    """

    axes: frozenset[str]
    by_lane: bool
    counters: frozenset[Node]
    varies_in: frozenset[Node]
    loads: frozenset[Node]
    of_data: bool
    of_lane_data: bool
    has_division: bool
    arguments: frozenset[int] | None


class Dependences:
    """What values depend on, in two readings (see `Graph`), and their numbers."""

    def __init__(self, nodes: list[Node], arguments: Iterable[list[Value]]) -> None:
        self._nodes = nodes
        self._bits: dict[tuple[str, object], int] = {}
        self._values = [
            *(each for node in nodes for each in node.results),
            *(each for values in arguments for each in values),
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
            if is_kernel and value.type.startswith(POINTERS):
                bits |= self._bit("argument", value.index)
            return bits
        is_tensor = size_of(value.type) > 0
        if node.name == "tt.get_program_id":
            bits |= _AXES[node.text.partition("get_program_id ")[2][:1]]
        elif node.name == "tt.make_range":
            bits |= _LANES
        elif ATOMICS.match(node.name) or node.name == ASSEMBLY:
            bits |= sum(_AXES.values()) | (_LANES if is_tensor else 0)
        elif node.name == "tt.int_to_ptr":
            bits |= _NO_ARGUMENT
        elif DIVISIONS.match(node.name):
            bits |= _DIVISION
        if LOADS.search(node.name):
            bits |= self._bit("load", node)
        if is_data(node):
            bits |= _DATA | (_LANE_DATA if is_tensor else 0)
        if LOADS.search(node.name) or ATOMICS.match(node.name) or node.op.regions or node.name == "tt.call":
            bits |= self._varying(node.loops)
        return bits

    def _varying(self, loops: Iterable[Node]) -> int:
        bits = 0
        for loop in loops:
            bits |= self._bit("varies", loop)
        return bits

    def _cuts(self, value: Value, reading: str) -> bool:
        """Whether a reading does not look behind a value."""
        if reading == "all":
            return False
        return value.is_counter if value.maker is None else is_data(value.maker)

    def _join(self, reading: str) -> dict[Value, int]:
        found = dict(self._own)
        copies = {
            node: self._bit("load", node)
            for node in self._nodes if LOADS.search(node.name) and WRITES.search(node.name)
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
            by_lane=bool(bits & _LANES),
            counters=frozenset(named["counter"]),  # type: ignore[arg-type]
            varies_in=frozenset(named["varies"]),  # type: ignore[arg-type]
            loads=frozenset(named["load"]),  # type: ignore[arg-type]
            of_data=bool(bits & _DATA) or bool(named["load"]),
            of_lane_data=bool(bits & _LANE_DATA),
            has_division=bool(bits & _DIVISION),
            arguments=None if bits & _NO_ARGUMENT else frozenset(named["argument"]),  # type: ignore[arg-type]
        )

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


_IMPURE: Final = re.compile(r"tt\.(atomic_|call$|elementwise_inline_asm$)")
_NAMES: Final = re.compile(r"%[\w#:-]+")


def _is_advanced(value: Value) -> bool:
    """Whether each step adds something to a value that a loop carries."""
    return any(
        source.maker is not None and source.maker.name in ADDS and value in source.maker.operands
        for source in value.sources
    )
