"""Keeps which product of `a * b + c * d` is fused into the addition, and so not rounded.

LLVM takes the first operand, if that is a product. Which one comes first, its `reassociate` pass decides by
how many loads and how much inline assembly stand before the operands, clock reads included. An addition gives
the same whichever comes first. So where a build with records has its operands the other way round than the
bare one, they are put back, in the LLVM IR that the optimiser has left. `contractions.py` tells from the PTX
whether that was enough.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["as_bare", "is_ambiguous"]

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
