"""What PTX text consists of: operands, instructions with their source lines, functions and variables."""

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "Address", "Function", "GlobalVariable", "Immediate", "Instruction", "Module", "Operand", "Parameter",
    "Register", "SourceLine", "Symbol", "Vector",
]  # fmt: skip


class SourceLine(NamedTuple):
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Register(NamedTuple):
    """`%r1`, `%tid.x`, or a name declared by `.reg`; `_` is where a vector's unused element goes."""

    name: str


class Immediate(NamedTuple):
    """The bits of a constant; `width` is that of a float literal in bits, 0 for an integer (any width)."""

    bits: int
    width: int


class Symbol(NamedTuple):
    """A variable, parameter, function or label."""

    name: str


class Vector(NamedTuple):
    """`{a, b}`, or `p|q` of instructions with two results."""

    items: tuple["Operand", ...]


class Address(NamedTuple):
    """`[base + offset]`, offset in bytes."""

    base: "Register | Symbol | Immediate"
    offset: int


Operand = Register | Immediate | Symbol | Vector | Address


@dataclass(frozen=True)
class Instruction:
    """`predicate` is (register, negated) or None; `line` counts lines of the PTX text from 1, `number` its
    instructions from 0.
    """

    opcode: str
    operands: tuple[Operand, ...]
    predicate: tuple[Register, bool] | None
    line: int
    source: SourceLine | None
    number: int = -1

    def __str__(self) -> str:
        """`ld.global.b32 at PTX line 60 (add.py:18)`, for error messages."""
        where = f" ({self.source})" if self.source else ""
        return f"{self.opcode} at PTX line {self.line}{where}"


class Parameter(NamedTuple):
    name: str
    type: str
    is_pointer: bool


@dataclass
class Function:
    """`body` holds instructions and labels in order; sizes are bytes, `registers` maps names to types.

    `branch_targets` are the lists of labels that `brx.idx` picks from, by the list's own label.
    """

    name: str
    is_entry: bool
    params: list["Parameter"]
    results: list[str] = field(default_factory=list)
    threads: int = 0  # of .reqntid
    registers: dict[str, str] = field(default_factory=dict)
    locals: dict[str, int] = field(default_factory=dict)
    body: list[Instruction | Symbol] = field(default_factory=list)
    branch_targets: dict[str, tuple["Operand", ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class GlobalVariable:
    """`data` is None for the dynamic shared array, whose size the launch gives."""

    name: str
    space: str
    data: bytes | None
    size: int


@dataclass
class Module:
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, GlobalVariable] = field(default_factory=dict)
