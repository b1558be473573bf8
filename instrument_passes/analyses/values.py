"""Ops and values of a module as `graph` links them: who makes a value, and who uses it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from profscope.instrument_passes.ir.model import Op
from profscope.instrument_passes.ir.signature import element_type, elements

__all__ = [
    "ADDS", "ASSEMBLY", "ATOMICS", "AXES", "DIVISIONS", "FOR_BOUNDS", "LOADS", "LOOPS", "POINTERS",
    "PRODUCTS", "WRITES", "Node", "Value", "element_bytes", "is_data", "size_of",
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
