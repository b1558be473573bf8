"""The products that a PTX text fuses into sums, and so leaves unrounded: builds that agree in this round
alike.

In `a * b + c * d` either product may be fused into the addition. Which one LLVM takes depends on the order it
keeps its operands in, and that on what else stands between them: on clock reads, say. Nothing else that
rounds may differ between two builds of a kernel. A sum is known by where its operands come from: loads by
their line, parameters, constants. Registers, the order of instructions, integer code, and how often code is
there, differ between builds that give the same results. So only sums that both builds have are compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

__all__ = ["Contractions", "contractions_of", "unlike_text"]

_LINE: Final = re.compile(
    r"^[ \t]*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)[^\n]*$"
    r"|^[ \t]*(?P<label>\$L__BB\w+):"
    r"|^[ \t]*(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>[^\n;]*);",
    re.MULTILINE,
)
_FILE: Final = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"(?:[^"\n]*/)?([^"\n/]*)"', re.MULTILINE)
_FUNCTION: Final = re.compile(r"\.(?:func|entry)\b")
_COMMA: Final = re.compile(r",\s*(?![^{\[]*[}\]])")  # not in braces or brackets
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_READ: Final = re.compile(r"%[a-z]+\d+|\b0[fdx][0-9A-Fa-f]+\b")  # registers and constants
_FLOATS: Final = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_WITHOUT_RESULT: Final = frozenset({"st", "red", "bar", "barrier", "setp", "fence", "membar", "prefetch"})
_BRANCHES: Final = ("bra", "brx")
_LABEL: Final = "label"
_SHOWN_PLACES: Final = 3
_LOADS: Final = ("ld", "ldmatrix")
_SUMS: Final = ("add", "sub")
_COPIES: Final = ("mov", "neg")
# Operations on floats that are among what a value comes from.
_TOLD: Final = frozenset(
    {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div", "mma", "wgmma"}
)  # fmt: skip

Operand = tuple[str, ...]
"""Of a sum: what it comes from; of a product, what each of its factors does."""
Sum = tuple[str, tuple[Operand, Operand]]
"""The type, and what is added up."""


@dataclass(frozen=True)
class Contractions:
    """sums: by summands, the product that is fused into the sum, None for none, each with a place,
    "k.py:12"."""

    sums: Mapping[Sum, Mapping[Operand | None, str]]

    def unlike(self, bare: Contractions) -> list[str]:
        """The places of sums that another build has, too, with other products fused."""
        both = self.sums.keys() & bare.sums.keys()
        unlike = [key for key in self.sums if key in both and self.sums[key].keys() != bare.sums[key].keys()]
        return list(dict.fromkeys(_new(self.sums[key], bare.sums[key]) for key in unlike))


def unlike_text(places: Sequence[str]) -> str:
    """The text of the result of `unlike`, if it is not empty: "the sum at k.py:12 fuses another product than
    ..."."""
    if len(places) == 1:
        return f"the sum at {places[0]} fuses another product than in the bare kernel"
    shown, more = places[:_SHOWN_PLACES], len(places) - _SHOWN_PLACES
    named = f"{', '.join(shown)} and {more} more" if more > 0 else " and ".join(shown)
    return f"the sums at {named} fuse other products than in the bare kernel"


def _new(fused: Mapping[Operand | None, str], before: Mapping[Operand | None, str]) -> str:
    """The place of what was not fused before."""
    return next(
        (place for product, place in fused.items() if product not in before), next(iter(fused.values()))
    )


def contractions_of(ptx: str) -> Contractions:
    """The sums of products in a PTX text."""
    files = dict(_FILE.findall(ptx))
    sums: defaultdict[Sum, dict[Operand | None, str]] = defaultdict(dict)
    for function in _FUNCTION.split(ptx):  # each has registers of its own
        for key, product, place in _Values(list(_told_apart(list(_instructions(function))))).sums():
            sums[key].setdefault(product, place.text(files))
    return Contractions(dict(sums))


class _Place(NamedTuple):
    """Numbers, of the file, too; 0 if not known."""

    file: str = ""
    line: str = "0"
    column: str = "0"

    def text(self, files: Mapping[str, str]) -> str:
        return f"{files.get(self.file) or 'line'}:{self.line}"


class _Instruction(NamedTuple):
    """results: registers; operands: the registers and constants of each, without the result; loaded: the
    parameter that a load loads; is_guarded: whether it may not run; otherwise: of each result, what it is
    then, none if a result has only one value."""

    opcode: str
    results: tuple[str, ...] = ()
    operands: tuple[tuple[str, ...], ...] = ()
    place: _Place = _Place()
    parameter: str = ""
    is_guarded: bool = False
    otherwise: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def type(self) -> str:
        """Of the last operand, "f16" also for two at once."""
        return self.opcode.rpartition(".")[2].removesuffix("x2")

    @property
    def is_float(self) -> bool:
        return not _FLOATS.isdisjoint(self.opcode.split("."))


def _instructions(function: str) -> Iterator[_Instruction]:
    """Those with a result; also labels and branches, as ways through the function meet and part there."""
    place = _Place()
    for line in _LINE.finditer(function):
        opcode = line["opcode"]
        if line["label"] is not None:
            yield _Instruction(_LABEL)
        elif opcode is None:
            place = _Place(line["file"], line["line"], line["column"])
        elif (name := opcode.partition(".")[0]) in _BRANCHES:
            yield _Instruction(opcode)
        elif name not in _WITHOUT_RESULT:
            result, *operands = _COMMA.split(line["operands"])
            read = tuple(tuple(_READ.findall(text)) for text in operands)
            is_parameter = name == "ld" and "param" in opcode.split(".")
            parameter = _parameter(operands[0]) if is_parameter else ""
            is_guarded = line["guard"] is not None
            yield _Instruction(opcode, tuple(_REGISTER.findall(result)), read, place, parameter, is_guarded)


def _parameter(text: str) -> str:
    """A parameter without the name of its function, or a result: instrumented functions have more of both."""
    number = re.search(r"_param_\d+", text)
    return number[0] if number else "result"


def _told_apart(instructions: Sequence[_Instruction]) -> Iterator[_Instruction]:
    """Those with a result. A register that is written at several places, as compilers use one for several
    values, has another name after each, and its own one again at a label. At branches and labels its own one
    takes the value that it has there."""
    writes = Counter(register for each in instructions for register in each.results)
    names: dict[str, str] = {}  # since the last label
    left: dict[str, str] = {}  # of these, since the last branch
    for at, each in enumerate(instructions):
        if not each.results:
            yield from _joined(left)
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
    yield from _joined(left)


def _joined(names: Mapping[str, str]) -> Iterator[_Instruction]:
    return (_Instruction("mov.b32", (own,), ((name,),)) for own, name in names.items())


class _Values:
    """What a function's registers hold."""

    def __init__(self, instructions: Sequence[_Instruction]) -> None:
        self._instructions = instructions
        self._origins = _origins(instructions)
        writes = Counter(register for each in instructions for register in each.results)
        self._made = {  # by register, the only instruction that writes to it
            register: each
            for each in instructions
            for register in each.results
            if writes[register] == 1 and not each.is_guarded
        }

    def sums(self) -> Iterator[tuple[Sum, Operand | None, _Place]]:
        """What is added up, the product that is fused into the sum, None if none is, and the place. Sums
        without a product are left out."""
        for each in self._instructions:
            if not each.is_float:
                continue
            if each.name == "fma":
                product = self._product(each)
                addends = _in_order(product, self._addend(each.operands[2]))
                yield (each.type, addends), product, each.place
            elif each.name in _SUMS:
                first, second = map(self._addend, each.operands[:2])
                if _PRODUCT in (len(first), len(second)):
                    yield (each.type, _in_order(first, second)), None, each.place

    def _product(self, each: _Instruction) -> Operand:
        return _in_order(*map(self._origin, each.operands[:2]))

    def _addend(self, operand: tuple[str, ...]) -> Operand:
        """Of a product what both factors come from, of any other value what it does."""
        made = self._behind_copies(operand)
        is_product = made is not None and made.name == "mul" and made.is_float
        return self._product(made) if made is not None and is_product else (self._origin(operand),)

    def _behind_copies(self, operand: tuple[str, ...]) -> _Instruction | None:
        """What has made a value; None if several instructions have."""
        seen: set[str] = set()
        while len(operand) == 1 and operand[0] in self._made and operand[0] not in seen:
            made = self._made[operand[0]]
            if made.name not in _COPIES:
                return made
            seen.add(operand[0])
            operand = made.operands[0]
        return None

    def _origin(self, operand: tuple[str, ...]) -> str:
        """Of an operand; `{%r1, %r2}` is one too."""
        constants = {name for name in operand if not name.startswith("%")}
        return " ".join(sorted(constants.union(*(self._origins.get(name, ()) for name in operand))))


_PRODUCT: Final = 2  # factors
_Ordered = TypeVar("_Ordered", str, Operand)


def _in_order(one: _Ordered, other: _Ordered) -> tuple[_Ordered, _Ordered]:
    """Both, which commute."""
    return (one, other) if one <= other else (other, one)


def _origins(instructions: Sequence[_Instruction]) -> Mapping[str, frozenset[str]]:
    """By register, what its value comes from, on any way through the function: the compiler may have another
    branch in one build, such as for a loop of no iterations."""
    origins: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    passed: list[tuple[str, list[str]]] = []  # a register, and those that it has its value from
    for each in instructions:
        operands = each.operands[:2] if each.name == "selp" else each.operands
        read = [] if each.name in _LOADS else [name for operand in operands for name in operand]
        for at, register in enumerate(each.results):
            origins[register] |= _own_origin(each, at)
            passed.append((register, [*read, *each.otherwise[at : at + 1]]))
    changed = True
    while changed:
        changed = False
        for register, read in passed:
            known = origins[register]
            origins[register] = known.union(*(origins[name] for name in read))
            changed |= len(origins[register]) > len(known)
    return origins


def _own_origin(each: _Instruction, at: int) -> frozenset[str]:
    """Of the result with this number. Of a load the file is not told: a copy of a file has the same kernel,
    and a binary out of Triton's cache names the file that it was compiled from."""
    if each.parameter:
        return frozenset({each.parameter})
    if each.name == "ld":
        # LLVM joins loads of shared memory as it likes; those of global memory are Triton's own assembly.
        is_of_several = len(each.results) > 1 and "global" in each.opcode.split(".")
        element = f" {at}" if is_of_several else ""
        return frozenset({f"load {each.place.line}:{each.place.column}{element}"})
    is_told = each.name == "ldmatrix" or (each.name in _TOLD and each.is_float)
    return frozenset({each.name} if is_told else ())
