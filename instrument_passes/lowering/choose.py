"""The code by which a CTA finds out whether it records, and in which of the launch's areas."""

from __future__ import annotations

from instrument_passes.lowering.area import Area
from instrument_passes.selection import ADDRESS_BITS, SPREAD, Selection

__all__ = ["choose_area"]


def choose_area(p: str, area: Area, selection: Selection) -> str:
    """Text that defines the area's `slot` and `elsewhere`.

    There is, with this prefix: `_stride` i32.
    """
    return _in_list(p, area, selection.ids) if selection.ids else _spread(p, area)


def _spread(p: str, area: Area) -> str:
    """As `Selection.cta` says. `s` may be 0, and a shift by 32 is undefined: so one by 32 - s is two."""
    return f"""
        {area.slot} = arith.shrui {area.cta}, {p}_stride : i32
        {p}_back = arith.shli {area.slot}, {p}_stride : i32
        {p}_factor = arith.constant {SPREAD - (1 << 32)} : i32
        {p}_even = arith.muli {area.slot}, {p}_factor : i32
        {p}_half = arith.constant 32 : i64
        {p}_top = arith.shrui {area.raw}, {p}_half : i64
        {p}_word = arith.trunci {p}_top : i64 to i32
        {p}_above = arith.constant {-1 << ADDRESS_BITS - 32} : i32
        {p}_turn = arith.andi {p}_word, {p}_above : i32
        {p}_multiple = arith.xori {p}_even, {p}_turn : i32
        {p}_one = arith.constant 1 : i32
        {p}_upper = arith.shrui {p}_multiple, {p}_one : i32
        {p}_thirty_one = arith.constant 31 : i32
        {p}_lower_bits = arith.subi {p}_thirty_one, {p}_stride : i32
        {p}_within = arith.shrui {p}_upper, {p}_lower_bits : i32
        {p}_there = arith.ori {p}_back, {p}_within : i32
        {area.elsewhere} = arith.xori {p}_there, {area.cta} : i32
        """


def _in_list(p: str, area: Area, ids: tuple[int, ...]) -> str:
    lines = [f"{p}_slot_0 = arith.constant -1 : i32"]
    for index, wanted in enumerate(ids):
        last = area.slot if index == len(ids) - 1 else f"{p}_slot_{index + 1}"
        lines += [
            f"{p}_index_{index} = arith.constant {index} : i32",
            f"{p}_wanted_{index} = arith.constant {wanted} : i32",
            f"{p}_is_{index} = arith.cmpi eq, {area.cta}, {p}_wanted_{index} : i32",
            f"{last} = arith.select {p}_is_{index}, {p}_index_{index}, {p}_slot_{index} : i32",
        ]
    lines += [
        f"{p}_not = arith.constant -1 : i32",
        f"{p}_absent = arith.cmpi eq, {area.slot}, {p}_not : i32",
        f"{area.elsewhere} = arith.extui {p}_absent : i1 to i32",
    ]
    return "\n".join(lines)
