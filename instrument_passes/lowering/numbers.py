"""Payloads where sums are kept: of the numbers of a site their sum, the least and the greatest.

Every value starts as zero, also where memory holds it between entries of a partition. So the extremes are
kept as keys, unsigned integers in the order of the numbers: the greatest key, and for the least number the
greatest complement of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from instrument_passes.dialect import record_id
from instrument_passes.ir import Op
from instrument_passes.ir.tokens import unquote
from instrument_passes.lowering.builder import SectionBuilder
from instrument_passes.span_columns import RESERVED

__all__ = ["WORDS", "Number", "add_number", "checked_payload"]

# The sum is 64 bits, the lower half first, or a float32 and the sum of what rounding took from it: two words
# each. Behind it are the complement of the least key, the greatest key and, of floats, how many were NaN.
WORDS: Final = {"i32": 4, "f32": 5}
_SIGN: Final = -(1 << 31)


@dataclass(frozen=True)
class Number:
    """A payload that was reached: names of its value and of the i1 that says whether its span ran, or ""."""

    keys: Sequence[int]
    kind: str
    value: str
    ran: str


def checked_payload(op: Op, section: SectionBuilder, open_spans: Sequence[int]) -> tuple[int, str, str]:
    """Span, name and type of a payload. Raises IRError if it stands, is called or is typed wrongly."""
    span, name = record_id(op), unquote(op.attributes.get("name", ""))
    if span not in open_spans or section.spans[span].block is not op.parent:
        raise op.error("a payload must stand between its span's begin and end, in the block of the begin")
    if not name.isidentifier() or name in RESERVED:
        raise op.error(f"{name!r} cannot be the name of a column; take an identifier that is none yet")
    kind = next(iter(op.operand_types), "")
    if kind not in WORDS:
        raise op.error(f"a payload must be an i32 or f32, not {kind or 'of unknown type'}")
    return span, name, kind


def add_number(number: Number, before: Sequence[str], p: str, zero: str) -> tuple[list[str], list[str]]:
    """Text that adds a number to what is kept under its keys, and the names of the new values.

    before: names of the values so far. p begins the names of the results; zero: an i32 constant.
    """
    return (_add_integer if number.kind == "i32" else _add_float)(number, before, p, zero)


def _add_integer(number: Number, before: Sequence[str], p: str, zero: str) -> tuple[list[str], list[str]]:
    low, high, least, greatest = before
    value = number.value
    lines = [
        f"{p}_sign = arith.constant {_SIGN} : i32",
        f"{p}_key = arith.xori {value}, {p}_sign : i32",
    ]
    if number.ran:
        lines.append(f"{p}_value = arith.select {number.ran}, {value}, {zero} : i32")
        value = f"{p}_value"
    lines += [
        f"{p}_low = arith.addi {low}, {value} : i32",
        f"{p}_carries = arith.cmpi ult, {p}_low, {value} : i32",
        f"{p}_carry = arith.extui {p}_carries : i1 to i32",
        f"{p}_shift = arith.constant 31 : i32",
        f"{p}_upper = arith.shrsi {value}, {p}_shift : i32",
        f"{p}_sum = arith.addi {high}, {p}_upper : i32",
        f"{p}_high = arith.addi {p}_sum, {p}_carry : i32",
    ]
    extremes, names = _extremes(p, number.ran, least, greatest, zero)
    return lines + extremes, [f"{p}_low", f"{p}_high", *names]


def _add_float(number: Number, before: Sequence[str], p: str, zero: str) -> tuple[list[str], list[str]]:
    head, tail, least, greatest, nans = before
    value, counts = number.value, f"{p}_counts"
    lines = [
        f"{p}_nothing = arith.constant 0.0 : f32",
        f"{p}_nan = arith.cmpf uno, {value}, {value} : f32",
        f"{p}_ordered = arith.cmpf ord, {value}, {value} : f32",
    ]
    if number.ran:
        lines += [
            f"{p}_nan_ran = arith.andi {p}_nan, {number.ran} : i1",
            f"{counts} = arith.andi {p}_ordered, {number.ran} : i1",
        ]
    nan, counts = (f"{p}_nan_ran", counts) if number.ran else (f"{p}_nan", f"{p}_ordered")
    lines += [
        f"{p}_bits = arith.bitcast {value} : f32 to i32",
        f"{p}_sign = arith.constant {_SIGN} : i32",
        f"{p}_shift = arith.constant 31 : i32",
        f"{p}_negative = arith.shrsi {p}_bits, {p}_shift : i32",
        f"{p}_turned = arith.ori {p}_negative, {p}_sign : i32",
        f"{p}_key = arith.xori {p}_bits, {p}_turned : i32",
        f"{p}_value = arith.select {counts}, {value}, {p}_nothing : f32",
        f"{p}_head_before = arith.bitcast {head} : i32 to f32",
        f"{p}_tail_before = arith.bitcast {tail} : i32 to f32",
        # What the rounding of a sum took: Knuth, The Art of Computer Programming 2, 4.2.2, theorem B.
        f"{p}_sum = arith.addf {p}_head_before, {p}_value : f32",
        f"{p}_added = arith.subf {p}_sum, {p}_head_before : f32",
        f"{p}_kept = arith.subf {p}_sum, {p}_added : f32",
        f"{p}_lost = arith.subf {p}_head_before, {p}_kept : f32",
        f"{p}_missed = arith.subf {p}_value, {p}_added : f32",
        f"{p}_rest = arith.addf {p}_lost, {p}_missed : f32",
        f"{p}_rests = arith.addf {p}_tail_before, {p}_rest : f32",
        f"{p}_head = arith.bitcast {p}_sum : f32 to i32",
        f"{p}_tail = arith.bitcast {p}_rests : f32 to i32",
        f"{p}_one = arith.extui {nan} : i1 to i32",
        f"{p}_nans = arith.addi {nans}, {p}_one : i32",
    ]
    extremes, names = _extremes(p, counts, least, greatest, zero)
    return lines + extremes, [f"{p}_head", f"{p}_tail", *names, f"{p}_nans"]


def _extremes(p: str, counts: str, least: str, greatest: str, zero: str) -> tuple[list[str], list[str]]:
    """Of a key, which counts where the i1 `counts` is true, or always."""
    key, turned = f"{p}_key", f"{p}_complement"
    lines = [f"{p}_ones = arith.constant -1 : i32", f"{turned} = arith.xori {key}, {p}_ones : i32"]
    if counts:
        for name in (key, turned):
            lines.append(f"{name}_or = arith.select {counts}, {name}, {zero} : i32")
        key, turned = f"{key}_or", f"{turned}_or"
    lines += [
        f"{p}_least = arith.maxui {least}, {turned} : i32",
        f"{p}_greatest = arith.maxui {greatest}, {key} : i32",
    ]
    return lines, [f"{p}_least", f"{p}_greatest"]
