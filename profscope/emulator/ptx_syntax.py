"""The parts of PTX text: operands, instructions with their source lines, functions and variables."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from profscope.errors import EmulatorError

__all__ = [
    "Address",
    "Function",
    "GlobalVariable",
    "Immediate",
    "Instruction",
    "Module",
    "Operand",
    "Parameter",
    "Register",
    "SourceLine",
    "Symbol",
    "Token",
    "Vector",
    "immediate",
    "negative",
    "ptx_class",
    "sass_name",
    "tokens",
    "unquoted",
]


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

    items: tuple[Operand, ...]


class Address(NamedTuple):
    """`[base + offset]`, offset in bytes."""

    base: Register | Symbol | Immediate
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
    params: list[Parameter]
    results: list[str] = field(default_factory=list)
    threads: int = 0  # of .reqntid
    registers: dict[str, str] = field(default_factory=dict)
    locals: dict[str, int] = field(default_factory=dict)
    body: list[Instruction | Symbol] = field(default_factory=list)
    branch_targets: dict[str, tuple[Operand, ...]] = field(default_factory=dict)


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


class Token(NamedTuple):
    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)
    |(?P<newline>\n)
    |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
        |(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)
    |(?P<word>[%$.A-Za-z_](?:[\w$.%]|::(?=[\w]))*)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<punctuation>[-+{}()\[\],;:@!|<>=])""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> Iterator[Token]:
    line = 1
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise EmulatorError(f"PTX line {line}: cannot read {text[position : position + 30]!r}")
        kind = str(match.lastgroup)
        if kind == "newline":
            yield Token(kind, "\n", line)
        elif kind != "skip":
            yield Token(kind, match.group(), line)
        line += match.group().count("\n")
        position = match.end()


def immediate(token: Token) -> Immediate:
    """The number a token stands for. Raises EmulatorError if it is none.

    Source: PTX ISA 8.6, 4.5: integers are decimal, 0x, 0b, or octal where they begin with 0; floats are
    doubles, or a float32's bits after 0f.
    """
    if token.kind != "number":
        raise EmulatorError(f"PTX line {token.line}: number expected, found {token.text!r}")
    text = token.text.rstrip("U").lower()
    if text[:2] in ("0f", "0d"):
        return Immediate(int(text[2:], 16), 32 if text[1] == "f" else 64)
    if text[:2] in ("0x", "0b"):
        return Immediate(int(text, 0), 0)
    if not text.isdigit():
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    if text[0] == "0" and not set(text) <= set("01234567"):
        raise EmulatorError(f"PTX line {token.line}: {token.text} is no octal number")
    return Immediate(int(text, 8 if text[0] == "0" else 10), 0)


def negative(number: Immediate) -> Immediate:
    """The number with a minus before it."""
    sign_bit = 1 << number.width >> 1
    return Immediate(number.bits ^ sign_bit if sign_bit else -number.bits, number.width)


def unquoted(text: str) -> str:
    """The value of a string: LLVM escapes quotes and bytes that are not printable ASCII."""
    raw = _ESCAPE.sub(lambda match: _unescaped(match[1]), text.encode())
    return raw.decode(errors="replace")


_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _unescaped(escape: bytes) -> bytes:
    return bytes([int(escape, 8) & 255]) if escape.isdigit() else _CONTROLS.get(escape, escape)


# What an instruction of PTX is: its class, as `profscope.binaries.listing` has them, and the opcode
# of SASS that ptxas mostly makes of it.


_SPACES: Final = r"(\w+\.)*"
_XU: Final = r"(ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt)"
# The first that matches; what ptxas makes of an instruction decides, such as LDGDEPBAR of a commit. Without a
# name it is the opcode's own.
_TABLE: Final = tuple(
    (re.compile(pattern), cls, name)
    for pattern, cls, name in (
        (rf"ldu?\.{_SPACES}param\b", "constant load", "MOV"),
        (rf"ldu?\.{_SPACES}const\b", "constant load", "LDC"),
        (r"ldmatrix", "shared load", "LDSM"),
        (rf"ldu?\.{_SPACES}shared\b", "shared load", "LDS"),
        (rf"ldu?\.{_SPACES}local\b", "local load", "LDL"),
        (r"ldu?\b", "global load", "LDG"),
        (rf"st\.{_SPACES}shared\b", "shared store", "STS"),
        (rf"st\.{_SPACES}local\b", "local store", "STL"),
        (r"st\b", "global store", "STG"),
        (r"atom\.", "atomic", "ATOM"),
        (r"red\.", "atomic", "RED"),
        (r"cp\.async\.wait", "barrier", "LDGDEPBAR"),
        (r"cp\.async\.(commit|mbarrier)", "async copy", "LDGDEPBAR"),
        (r"cp\.async", "async copy", "LDGSTS"),
        (r"mma\b", "mma", "HMMA"),
        (r"bar\b|barrier", "barrier", "BAR"),
        (r"fence|membar|griddepcontrol|nanosleep", "barrier", ""),
        (rf"{_XU}\.{_SPACES}f64", "special function", "DFMA"),
        (rf"{_XU}\b", "special function", "MUFU"),
        (r"cvt\b", "conversion", "F2F"),
        (rf"(setp|set|testp)\.{_SPACES}f64", "predicate", "DFMA"),
        (r"(setp|set|testp|isspacep)\b", "predicate", ""),
        (r"(mov|cvta|movmatrix)\b", "move", "MOV"),
        (r"shfl\b", "warp exchange", "SHFL"),
        (r"(vote|match|redux|activemask)\b", "warp exchange", ""),
        (r"(bra|brx|ret|exit|call|trap|brkpt|pmevent)\b", "control", ""),
        (rf"\w+\.{_SPACES}f64\b", "float", "DFMA"),
        (rf"(fma|mad)\.{_SPACES}b?f(16|32|16x2)\b", "float", "FFMA"),
        (rf"mul\.{_SPACES}b?f(16|32|16x2)\b", "float", "FMUL"),
        (rf"(add|sub)\.{_SPACES}b?f(16|32|16x2)\b", "float", "FADD"),
        (rf"\w+\.{_SPACES}b?f(16|32|16x2)\b", "float", ""),
        (r"(prefetchu?|createpolicy)\b", "other", ""),
        (r"prmt\b", "integer", "PRMT"),
        (r"sh[lrf]\b", "integer", "SHF"),
        (r"(and|or|xor|not|lop3)\b", "integer", "LOP3"),
    )
)


@lru_cache(maxsize=1024)
def _row(opcode: str) -> tuple[str, str]:
    known = ((cls, name) for pattern, cls, name in _TABLE if pattern.match(opcode))
    cls, name = next(known, ("integer", ""))
    return cls, name or opcode.partition(".")[0].upper()


def ptx_class(opcode: str) -> str:
    """ "ld.global.v4.b32": "global load". The default is integer arithmetic."""
    return _row(opcode)[0]


def sass_name(opcode: str) -> str:
    """ "ld.global.v4.b32": "LDG"."""
    return _row(opcode)[1]
