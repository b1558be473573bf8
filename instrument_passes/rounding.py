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
from typing import Final, NamedTuple

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
_WITHOUT_RESULT: Final = frozenset({"st", "red", "bar", "barrier", "setp", "fence", "membar", "prefetch"})
_BRANCHES: Final = ("bra", "brx")
_LABEL: Final = "label"
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
    instructions = list(_told_apart(list(_instructions(function))))
    origins = _origins(instructions)
    for each in instructions:
        if each.name not in _COUNTED or not each.is_float:
            continue
        counts[each.name] += 1
        if each.name in _PRODUCTS:
            read = [" ".join(sorted(_origin(operand, origins))) for operand in each.operands]
            read[:2] = sorted(read[:2])  # they commute
            expressions.add(blake2b("\n".join([each.opcode, *read]).encode(), digest_size=12).hexdigest())


class _Instruction(NamedTuple):
    """results: registers; operands: the registers of each, without the result; loaded: what a load loads, by
    its parameter or its line of the source; is_guarded: whether it may not run; otherwise: of each result,
    what it is then, none if a result has only one value."""

    opcode: str
    results: tuple[str, ...] = ()
    operands: tuple[tuple[str, ...], ...] = ()
    loaded: str = ""
    is_guarded: bool = False
    otherwise: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def is_float(self) -> bool:
        return not _FLOATS.isdisjoint(self.opcode.split("."))


def _instructions(function: str) -> Iterator[_Instruction]:
    """Those with a result; also labels and branches, as ways through the function meet and part there."""
    place = ""
    for line in _LINE.finditer(function):
        opcode = line["opcode"]
        if line["label"] is not None:
            yield _Instruction(_LABEL)
        elif opcode is None:
            place = line["place"].partition("//")[2].strip() or line["place"]
        elif (name := opcode.partition(".")[0]) in _BRANCHES:
            yield _Instruction(opcode)
        elif name not in _WITHOUT_RESULT:
            result, *operands = _COMMA.split(line["operands"])
            loaded = ""
            if name == "ld":
                is_parameter = "param" in opcode.split(".")
                loaded = _parameter(operands[0]) if is_parameter else f"loaded at {place}"
            read = tuple(tuple(_REGISTER.findall(text)) for text in operands)
            yield _Instruction(
                opcode, tuple(_REGISTER.findall(result)), read, loaded, line["guard"] is not None
            )


def _told_apart(instructions: Sequence[_Instruction]) -> Iterator[_Instruction]:
    """Those with a result. A register that is written at several places, as compilers use one for several
    values, has another name after each, and its own one again at a label. At branches and labels its own one
    takes the value that it has there."""
    writes = Counter(register for each in instructions for register in each.results)
    names: dict[str, str] = {}  # since the last label
    left: dict[str, str] = {}  # of these, since the last branch
    for at, each in enumerate(instructions):
        if not each.results:
            yield from (_Instruction("mov.b32", (own,), ((name,),)) for own, name in left.items())
            left.clear()
            if each.opcode == _LABEL:
                names.clear()
            continue
        now = each
        if names:
            read = tuple(tuple(names.get(name, name) for name in operand) for operand in each.operands)
            now = now._replace(operands=read)
        if any(writes[register] > 1 for register in each.results):
            otherwise = tuple(names.get(own, own) for own in each.results) if each.is_guarded else ()
            fresh = {own: f"{own} written at {at}" for own in each.results if writes[own] > 1}
            names.update(fresh)
            left.update(fresh)
            now = now._replace(
                results=tuple(names.get(own, own) for own in each.results), otherwise=otherwise
            )
        yield now
    yield from (_Instruction("mov.b32", (own,), ((name,),)) for own, name in left.items())


def _origins(instructions: Sequence[_Instruction]) -> dict[str, frozenset[str]]:
    """By register, the loads, parameters and integers that its value comes from, on any way through the
    function: the compiler may have another branch in one build, such as for a loop of no iterations."""
    origins: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    passed: list[tuple[str, list[str]]] = []  # a register, and those that it has its value from
    for each in instructions:
        if each.loaded:
            made = [f"{each.loaded} {at}" for at in range(len(each.results))]
        else:
            made = [] if each.name in _PASS_ON or each.is_float else [each.name] * len(each.results)
        for register, own in zip(each.results, made, strict=False):
            origins[register] |= {own}
        if not made or each.otherwise:
            count = 0 if made else _PASS_ON.get(each.name, len(each.operands))
            read = [name for operand in each.operands[:count] for name in operand]
            for at, register in enumerate(each.results):
                passed.append((register, [*read, *each.otherwise[at : at + 1]]))
    changed = True
    while changed:
        changed = False
        for register, read in passed:
            known = origins[register]
            origins[register] = known.union(*(origins[name] for name in read))
            changed |= origins[register] != known
    return origins


def _origin(operand: tuple[str, ...], origins: dict[str, frozenset[str]]) -> frozenset[str]:
    """Of an operand; `{%r1, %r2}` is one too."""
    return frozenset().union(*(origins.get(name, frozenset()) for name in operand))


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
