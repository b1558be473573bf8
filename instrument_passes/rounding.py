"""Whether two builds of a kernel do the same floating-point arithmetic, told from their PTX.

In `a * b + c * d` either product may be fused into the addition, and so not be rounded. Which one LLVM takes
depends on the order it keeps its operands in, and that on what else stands between them: on clock reads, say.
The instructions are as many then, but of other operands. So expressions are compared, not counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

__all__ = ["Arithmetic", "arithmetic_of", "as_bare", "is_ambiguous"]

_LINE: Final = re.compile(
    r"^[ \t]*\.loc\s(?P<place>[^\n]*)$"
    r"|^[ \t]*(?P<label>\$L__BB\w+):"
    r"|^[ \t]*(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>[^\n;]*);",
    re.MULTILINE,
)
_FUNCTION: Final = re.compile(r"\.(?:func|entry)\b")
_COMMA: Final = re.compile(r",\s*(?![^{\[]*[}\]])")  # not in braces or brackets
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_FLOATS: Final = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_WITHOUT_RESULT: Final = frozenset(
    {"st", "red", "bar", "barrier", "bra", "setp", "fence", "membar", "prefetch"}
)
# What they read counts, though they are no arithmetic: the first so many operands.
_PASS_ON: Final = {"cvt": 1, "mov": 1, "selp": 2, "shfl": 1}
_COUNTED: Final = ("fma", "mul", "add", "sub")
_PRODUCTS: Final = ("fma", "mul")


@dataclass(frozen=True)
class Arithmetic:
    """expressions: a hash of each product of floats, fused into an addition or not, and of the loads and
    parameters that its operands come from: nothing else rounds in one build and not in the other. counts: how
    many instructions of a name there are."""

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
    """Add a function's arithmetic."""
    instructions = list(_instructions(function))
    origins = _origins(instructions)
    for each in instructions:
        if each.name not in _COUNTED or not each.is_float:
            continue
        counts[each.name] += 1
        if each.name in _PRODUCTS:
            read = [" ".join(sorted(_origin(text, origins))) for text in each.operands]
            read[:2] = sorted(read[:2])  # they commute
            expressions.add(blake2b("\n".join([each.opcode, *read]).encode(), digest_size=12).hexdigest())


@dataclass(frozen=True)
class _Instruction:
    """results: registers; operands: without the result; place: its line of the source; otherwise: of each
    result, what it is if a guard keeps the instruction from running, none without a guard."""

    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    place: str
    otherwise: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def is_float(self) -> bool:
        return not _FLOATS.isdisjoint(self.opcode.split("."))


def _instructions(function: str) -> Iterator[_Instruction]:
    """Those with a result. Registers have another name after each time that they are written, as compilers
    use one for several values; at a label, where ways through the function meet, their own one again."""
    place, written = "", 0
    names: dict[str, str] = {}  # by register, since the last label
    for line in _LINE.finditer(function):
        if line["label"] is not None:
            yield from _met(names)
            names.clear()
        elif line["opcode"] is None:
            place = line["place"].partition("//")[2].strip() or line["place"]
        elif line["opcode"].partition(".")[0] not in _WITHOUT_RESULT:
            result, *operands = _COMMA.split(line["operands"])
            registers = _REGISTER.findall(result)
            read = [_REGISTER.sub(lambda each: names.get(each[0], each[0]), text) for text in operands]
            otherwise = [names.get(each, each) for each in registers] if line["guard"] else []
            for each in registers:
                names[each], written = f"%written{written}", written + 1
            results = tuple(names[each] for each in registers)
            yield _Instruction(line["opcode"], results, tuple(read), place, tuple(otherwise))
    yield from _met(names)


def _met(names: dict[str, str]) -> Iterator[_Instruction]:
    for register, name in names.items():
        yield _Instruction("mov.b32", (register,), (name,), "")


def _origins(instructions: Sequence[_Instruction]) -> dict[str, frozenset[str]]:
    """By register, the loads, parameters and integers that its value comes from, on any way through the
    function: the compiler may have another branch in one build, such as for a loop of no iterations."""
    origins: dict[str, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for each in instructions:
            for at, (register, own) in enumerate(zip(each.results, _results(each, origins), strict=True)):
                known = origins.get(register)
                whole = own if known is None else known | own
                if each.otherwise:
                    whole |= origins.get(each.otherwise[at], frozenset())
                if whole != known:
                    origins[register] = whole
                    changed = True
    return origins


def _results(each: _Instruction, origins: dict[str, frozenset[str]]) -> list[frozenset[str]]:
    """Of each result of an instruction, where it comes from."""
    if each.name == "ld":
        is_parameter = "param" in each.opcode.split(".")
        loaded = _parameter(each.operands[0]) if is_parameter else f"loaded at {each.place}"
        return [frozenset({f"{loaded} {at}"}) for at in range(len(each.results))]
    if each.name not in _PASS_ON and not each.is_float:
        return [frozenset({each.name})] * len(each.results)
    read = each.operands[: _PASS_ON.get(each.name, len(each.operands))]
    return [frozenset().union(*(_origin(text, origins) for text in read))] * len(each.results)


def _origin(text: str, origins: dict[str, frozenset[str]]) -> frozenset[str]:
    """Of an operand; `{%r1, %r2}` is one too."""
    return frozenset().union(*(origins.get(name, frozenset()) for name in _REGISTER.findall(text)))


def _parameter(text: str) -> str:
    """A parameter without the name of its function, or a result: instrumented functions have more of both."""
    number = re.search(r"_param_\d+", text)
    return number[0] if number else "result"


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
