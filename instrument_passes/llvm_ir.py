"""Corrects the optimised LLVM IR of a kernel with records, in two ways.

**It rounds as the bare kernel.** LLVM fuses the first operand of `a * b + c * d` into the addition, if that
is a product, and so does not round it. Which one comes first, its `reassociate` pass decides by how many
loads and how much inline assembly stand before the operands, clock reads included. An addition gives the same
whichever comes first. So operands that are the other way round than in the bare kernel are put back.
`contractions.py` tells from the PTX whether that was enough.

**The span of a load does not wait for its data.** Triton unpacks loaded data right behind the load, ahead of
the clock read that ends its span. If that takes an instruction, the warp waits for the data before it reads
the clock. So values computed from loaded data between a load and that clock read move to their first use.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["as_bare", "corrected", "is_ambiguous", "unpacked_late"]


def corrected(text: str, bare: Callable[[], str] | None) -> str:
    """A module of LLVM IR as it is to be compiled. bare: makes the module without records."""
    if bare is not None and is_ambiguous(text):
        text = as_bare(text, bare())
    return unpacked_late(text)


# The order of operands.

_VALUE: Final = re.compile(r"^\s*(%[\w.$-]+) = (.*)$")
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

    Additions are the same if their products are, down to loads, which are identified by their number among
    equal loads. An addition without a counterpart stays as it is.
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
        match = _VALUE.match(line)
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


# What unpacks loaded data.

_READS_CLOCK: Final = re.compile(r' asm sideeffect "(?:@\$1 )?mov\.u32 \$0, %clock;"')
_LOADS: Final = re.compile(
    r' = (?:load|atomicrmw|cmpxchg) | asm sideeffect "[^"]*(?<![a-z])(?:ld|atom)\.|@llvm\.nvvm\.ldmatrix'
)
_STAYS: Final = re.compile(r"(?:[a-z]+ )?call |load |atomicrmw |cmpxchg |phi |alloca ")
_BYTE: Final = re.compile(r'^  %([\w.$-]+) = ((?:tail )?call )i8( asm sideeffect ".*)', re.DOTALL)
_RESULT: Final = re.compile(r"^  (%[\w.$-]+) = ")
_NUMBER: Final = re.compile(r"%(\d+)\b")
_PLACE: Final = re.compile(r", !dbg !\d+")
_ENDS_BLOCK: Final = re.compile(r"^  (?:br|switch|indirectbr|ret|unreachable)\b")
_LABEL: Final = re.compile(r"^[\w.$-]+:")


def unpacked_late(text: str) -> str:
    """A module of LLVM IR whose clock reads do not wait for data unpacked ahead of them.

    Values without a name are numbered in the order of the lines, so they get other numbers.
    """
    if _READS_CLOCK.search(text) is None:
        return text
    lines: list[str] = []
    for function in _functions(text.splitlines(keepends=True)):
        moved = [line for block in _blocks(function) for line in _sunk([*_in_words(block)])]
        lines += moved if moved == function else _numbered(moved, function)
    return "".join(lines)


def _functions(lines: list[str]) -> Iterator[list[str]]:
    """A module's lines, in pieces: the body of each function is one, what stands between them another."""
    first = 0
    for at, line in enumerate(lines):
        if line.startswith(("define ", "}")):
            yield lines[first:at]
            first = at
    yield lines[first:]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    first = 0
    for at, line in enumerate(lines):
        if _LABEL.match(line):
            yield lines[first:at]
            first = at
    yield lines[first:]


def _in_words(block: list[str]) -> Iterator[str]:
    """A block's lines, with a byte that a load brings cut out of its register by a line of its own: else the
    backend does so right behind the load."""
    for line in block:
        byte = _BYTE.match(line) if _LOADS.search(line) else None
        if byte is None:
            yield line
        else:
            place = _PLACE.search(line)
            yield f"  %loaded.{byte[1]} = {byte[2]}i16{byte[3]}"
            yield f"  %{byte[1]} = trunc i16 %loaded.{byte[1]} to i8{place[0] if place else ''}\n"


def _sunk(block: list[str]) -> list[str]:
    """A block's lines. What unpacks loaded data ahead of a clock read comes before its first use, or last."""
    held: dict[str, str] = {}  # by result, lines that wait for their use
    lines: list[str] = []
    since = 0  # the first line behind the last clock read

    def put(line: str) -> None:
        for name in _operands(line):
            if name in held:
                put(held.pop(name))
        lines.append(line)

    for line in block:
        if reads_clock := _READS_CLOCK.search(line):
            unpacking = _unpacking(lines[since:], line)
            lines[since:] = [each for each in lines[since:] if _result(each) not in unpacking]
            held |= unpacking
        if _ENDS_BLOCK.match(line):
            while held:
                put(held.pop(next(iter(held))))
        put(line)
        if reads_clock:
            since = len(lines)
    return block if held else lines


def _unpacking(lines: list[str], clock: str) -> dict[str, str]:
    """By result, those of the lines ahead of a clock read that compute with what a load at its place brought,
    and that no other of them needs."""
    loads = (each for each in lines if _LOADS.search(each) and _place(each) == _place(clock))
    loaded = {name for each in loads if (name := _result(each))}
    unpacking: dict[str, str] = {}
    for line in lines:
        name = _result(line)
        if name and not _STAYS.match(line.partition(" = ")[2]) and not loaded.isdisjoint(_operands(line)):
            unpacking[name] = line
            loaded.add(name)
    needed: set[str] = set()
    for line in reversed(lines):
        name = _result(line)
        if name not in unpacking or name in needed:
            unpacking.pop(name, None)
            needed.update(_operands(line))
    return unpacking


def _operands(line: str) -> list[str]:
    return _NAME.findall(line.partition(" = ")[2] or line)


def _place(line: str) -> str:
    """Its place in the source; "" if the module has none."""
    match = _PLACE.search(line)
    return match[0] if match else ""


def _result(line: str) -> str:
    """The name of its result; "" if it has none."""
    match = _RESULT.match(line)
    return match[1] if match else ""


def _numbered(moved: list[str], before: list[str]) -> list[str]:
    """Lines of a function, numbered as LLVM wants it, which were in another order before."""
    order = [match[1] for line in before if (match := _RESULT.match(line)) and match[1][1:].isdecimal()]
    now = [match[1] for line in moved if (match := _RESULT.match(line)) and match[1][1:].isdecimal()]
    names = dict(zip(now, order, strict=True))
    return [_NUMBER.sub(lambda match: names.get(match[0], match[0]), line) for line in moved]
