"""Whether two builds of a kernel do the same floating-point arithmetic, told from their PTX.

In `a * b + c * d` either product may be fused into the addition, and so not be rounded. Which one LLVM takes
depends on the order it keeps its operands in, and that on what else stands between them: on clock reads, say.
The instructions are as many then, but of other operands. So expressions are compared, not counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

__all__ = ["Arithmetic", "arithmetic_of", "as_bare", "is_ambiguous"]

_LINE: Final = re.compile(
    r"^[ \t]*\.loc\s(?P<place>[^\n]*)$"
    r"|^[ \t]*(?:@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>[^\n;]*);",
    re.MULTILINE,
)
_FUNCTION: Final = re.compile(r"\.(?:func|entry)\b")
_COMMA: Final = re.compile(r",\s*(?![^{\[]*[}\]])")  # not in braces or brackets
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_FLOATS: Final = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_WITHOUT_RESULT: Final = frozenset(
    {"st", "red", "bar", "barrier", "bra", "setp", "fence", "membar", "prefetch"}
)
_COMMUTE: Final = frozenset({"add", "mul", "fma", "min", "max"})  # in their first two operands
# What they read counts, though they are no arithmetic: the first so many operands.
_PASS_ON: Final = {"cvt": 1, "selp": 2, "shfl": 1}
_COUNTED: Final = ("fma", "mul", "add", "sub")
_PRODUCTS: Final = ("fma", "mul")


@dataclass(frozen=True)
class Arithmetic:
    """expressions: a hash of each product of floats, fused into an addition or not, down to the loads and
    loops that its values come from: nothing else rounds in one build and not in the other. counts: how many
    instructions of a name there are."""

    expressions: frozenset[str]
    counts: tuple[tuple[str, int], ...]

    @property
    def digest(self) -> str:
        """The same for two builds that round alike."""
        return blake2b("".join(sorted(self.expressions)).encode(), digest_size=12).hexdigest()

    def differs_from(self, other: Arithmetic) -> bool:
        """Whether results may be rounded differently. Code that is there more often is no difference."""
        return self.expressions != other.expressions

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.counts)


def arithmetic_of(ptx: str) -> Arithmetic:
    """The floating-point arithmetic of a PTX text."""
    expressions: set[str] = set()
    counts = dict.fromkeys(_COUNTED, 0)
    for function in _FUNCTION.split(ptx):  # each has registers of its own
        _read(function, expressions, counts)
    return Arithmetic(frozenset(expressions), tuple(counts.items()))


def _read(function: str, expressions: set[str], counts: dict[str, int]) -> None:
    """Add a function's arithmetic. In the order of its text, registers are written before they are read."""
    lines = list(_LINE.finditer(function))
    written: Counter[str] = Counter()
    for line in lines:
        if line["opcode"] and line["opcode"].partition(".")[0] not in _WITHOUT_RESULT:
            written.update(_REGISTER.findall(_COMMA.split(line["operands"])[0]))
    values: dict[str, str] = {}  # by register
    place = ""
    for line in lines:
        if line["opcode"] is None:
            place = line["place"].partition("//")[2].strip() or line["place"]
            continue
        name, *modifiers = line["opcode"].split(".")
        if name in _WITHOUT_RESULT:
            continue
        result, *operands = _COMMA.split(line["operands"])
        registers = _REGISTER.findall(result)
        if name == "ld":
            value = _parameter(operands[0]) if "param" in modifiers else f"loaded at {place}"
        elif any(written[register] > 1 for register in registers):
            value = "of several"  # at the start of a loop, behind a branch
        else:
            value = _value(line["opcode"], operands, values)
        if len(registers) == 1 and name != "ld":
            values[registers[0]] = value
        else:
            values |= {register: f"{value} {at}" for at, register in enumerate(registers)}
        if name in _COUNTED and not _FLOATS.isdisjoint(modifiers):
            counts[name] += 1
            if name in _PRODUCTS:
                expressions.add(value)


def _value(opcode: str, operands: list[str], values: dict[str, str]) -> str:
    """What an instruction computes, from what its operands are; for integers just its name."""
    name, *modifiers = opcode.split(".")
    read = [_operand(text, values) for text in operands]
    if name == "mov":
        return read[0]
    if name in _PASS_ON:
        read = read[: _PASS_ON[name]]
    elif _FLOATS.isdisjoint(modifiers):
        return name
    if name in _COMMUTE:
        read[:2] = sorted(read[:2])
    return blake2b("\n".join([opcode, *read]).encode(), digest_size=12).hexdigest()


def _parameter(text: str) -> str:
    """A parameter without the name of its function, or a result: instrumented functions have more of both."""
    number = re.search(r"_param_\d+", text)
    return number[0] if number else "result"


def _operand(text: str, values: dict[str, str]) -> str:
    """An operand with its registers replaced; `{%r1, %r2}` is one too."""
    return _REGISTER.sub(lambda register: values.get(register[0], "unknown"), text.strip())


# Keeps which product of `a * b + c * d` is fused into the addition, and so not rounded.
#
# LLVM takes the first operand, if that is a product. Which one comes first, its `reassociate` pass decides by
# how many loads and how much inline assembly stand before the operands, clock reads included. An addition
# gives the same whichever comes first. So where a build with records has its operands the other way round
# than the bare one, they are put back, in the LLVM IR that the optimiser has left.

_RESULT: Final = re.compile(r"^\s*(%[\w.$-]+) = (.*)$")
_ADDITION: Final = re.compile(r"^(\s*%[\w.$-]+ = fadd [^%]*)(%[\w.$-]+), (%[\w.$-]+)(.*)$")
_A_PRODUCT: Final = re.compile(r"(%[\w.$-]+) = fmul ")
_AN_ADDITION: Final = re.compile(r" = fadd [^%\n]*(%[\w.$-]+), (%[\w.$-]+)")
_NAME: Final = re.compile(r"%[\w.$-]+")
_METADATA: Final = re.compile(r"(?: #\d+)?(?:, !\w+ !\d+)*$")
_PRODUCT: Final = "fmul "
_DEFINE: Final = "define "


@dataclass(frozen=True)
class _Sum:
    """An addition of two products: its line, the products in the order of their names, and whether the
    line has them in that order."""

    line: int
    products: tuple[str, str]
    in_order: bool


def is_ambiguous(text: str) -> bool:
    """Whether a module of LLVM IR may add two products anywhere."""
    products = {match[1] for match in _A_PRODUCT.finditer(text)}
    return any({match[1], match[2]} <= products for match in _AN_ADDITION.finditer(text))


def as_bare(text: str, bare: str) -> str:
    """A module of LLVM IR with the operands of its additions in the order that they have in the bare one.

    Additions are the same if their products are, down to loads, each of which is told by its number among
    those alike. What has no counterpart stays as it is.
    """
    wanted: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for each in _sums(bare.splitlines()):
        wanted[each.products].append(each.in_order)
    lines = text.splitlines(keepends=True)
    here: defaultdict[tuple[str, str], list[_Sum]] = defaultdict(list)
    for each in _sums(lines):
        here[each.products].append(each)
    for products, sums in here.items():
        orders = wanted[products]
        if len(orders) != len(sums):  # code is there more often, or less
            orders = orders[:1] * len(sums) if len(set(orders)) == 1 else []
        for each, in_order in zip(sums, orders, strict=False):
            if each.in_order != in_order:
                lines[each.line] = _ADDITION.sub(r"\1\3, \2\4", lines[each.line])
    return "".join(lines)


def _sums(lines: list[str]) -> Iterator[_Sum]:
    values: dict[str, str] = {}  # by name, what a value is
    products: set[str] = set()
    numbers: Counter[str] = Counter()
    for number, line in enumerate(lines):
        if line.startswith(_DEFINE):
            values, products, numbers = {}, set(), Counter()
        match = _RESULT.match(line)
        if match is None:
            continue
        name, what = match[1], _METADATA.sub("", match[2].rstrip())
        addition = _ADDITION.match(line)
        if addition is not None and {addition[2], addition[3]} <= products:
            first, second = (values[each] for each in (addition[2], addition[3]))
            if first != second:
                yield _Sum(number, (min(first, second), max(first, second)), first < second)
        if what.startswith(_PRODUCT):
            products.add(name)
        values[name] = _expression(what, values, numbers)


def _expression(what: str, values: dict[str, str], numbers: Counter[str]) -> str:
    """Tells an expression from others; where it depends on more than its operands, by its number among those
    alike."""
    if "sideeffect" in what or what.startswith(("phi ", "load ")):
        alike = _NAME.sub("", what.partition("[")[0] if what.startswith("phi ") else what)
        numbers[alike] += 1
        what = f"{alike} {numbers[alike]}"
    else:
        what = _NAME.sub(lambda name: values.get(name[0], name[0]), what)
    return str(hash(what))
