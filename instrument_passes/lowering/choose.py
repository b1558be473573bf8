"""The code by which a CTA finds out whether it records, and in which of the launch's areas."""

from __future__ import annotations

from instrument_passes.lowering.area import Area
from instrument_passes.records import LAUNCH_HEADER, LaunchBits
from instrument_passes.selection import SPREAD, Selection
from instrument_passes.targets import Target

__all__ = ["choose_area", "choose_warp"]


def choose_area(p: str, target: Target, area: Area, selection: Selection) -> str:
    """Text that defines the area's `slot` and `elsewhere`.

    There are, with this prefix: `_stride` i32, `_base` i64 (the buffer), `_size` i32 (of an area).
    """
    if selection.ctas == "first":
        return f"""
        {area.elsewhere} = arith.shrui {area.cta}, {p}_stride : i32
        {area.slot} = arith.ori {area.cta}, {area.cta} : i32
        """
    if selection.ctas == "list":
        return _in_list(p, area, selection.ids)
    if selection.ctas == "sms":
        return _by_ticket(p, target, area, selection.ids)
    return _spread(p, area)


def choose_warp(p: str, target: Target, warps: tuple[int, ...]) -> str:
    """Text that turns `{p}_warp`: i32 into `{p}_segment`: i32, the number of its segment, and `{p}_chosen`:
    i1, whether it has one. warps: those that record, all below 32."""
    mask = sum(1 << warp for warp in warps)
    return f"""
        {p}_mask = arith.constant {mask - (mask >> 31 << 32)} : i32
        {p}_unit = arith.constant 1 : i32
        {p}_bit = arith.shli {p}_unit, {p}_warp : i32
        {p}_below = arith.subi {p}_bit, {p}_unit : i32
        {p}_before = arith.andi {p}_mask, {p}_below : i32
        {target.count_bits(f"{p}_segment", f"{p}_before")}
        {p}_shifted = arith.shrui {p}_mask, {p}_warp : i32
        {p}_chosen = arith.trunci {p}_shifted : i32 to i1
        """


def _spread(p: str, area: Area) -> str:
    """As `Selection.cta` says. `s` may be 0, and a shift by 32 is undefined: so one by 32 - s is two."""
    return f"""
        {area.slot} = arith.shrui {area.cta}, {p}_stride : i32
        {p}_back = arith.shli {area.slot}, {p}_stride : i32
        {p}_factor = arith.constant {SPREAD - (1 << 32)} : i32
        {p}_multiple = arith.muli {area.slot}, {p}_factor : i32
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


def _by_ticket(p: str, target: Target, area: Area, sms: tuple[int, ...]) -> str:
    """Triton hands the result of a scalar atomic to all threads of the CTA, through shared memory."""
    types = ": (!tt.ptr<i32>, i32, i1) -> i32"
    lines = [target.sm_id(f"{p}_sm"), f"{p}_on_0 = arith.constant false"]
    for index, sm in enumerate(sms):
        lines += [
            f"{p}_sm_{index} = arith.constant {sm} : i32",
            f"{p}_is_{index} = arith.cmpi eq, {p}_sm, {p}_sm_{index} : i32",
            f"{p}_on_{index + 1} = arith.ori {p}_on_{index}, {p}_is_{index} : i1",
        ]
    return "\n".join(lines) + (
        f"""
        {p}_enable = arith.constant {LaunchBits.ENABLE} : i32
        {p}_bits = arith.andi {area.flags}, {p}_enable : i32
        {p}_enabled = arith.cmpi eq, {p}_bits, {p}_enable : i32
        {p}_draws = arith.andi {p}_on_{len(sms)}, {p}_enabled : i1
        {p}_unit64 = arith.constant 1 : i64
        {p}_stride64 = arith.extui {p}_stride : i32 to i64
        {p}_areas = arith.shli {p}_unit64, {p}_stride64 : i64
        {p}_size64 = arith.extui {p}_size : i32 to i64
        {p}_all = arith.shli {p}_size64, {p}_stride64 : i64
        {p}_header = arith.constant {LAUNCH_HEADER.itemsize} : i64
        {p}_areas_at = arith.addi {p}_base, {p}_header : i64
        {p}_counter = arith.addi {p}_areas_at, {p}_all : i64
        {p}_pointer = tt.int_to_ptr {p}_counter : i64 -> !tt.ptr<i32>
        {p}_unit = arith.constant 1 : i32
        {area.slot} = tt.atomic_rmw add, relaxed, gpu, {p}_pointer, {p}_unit, {p}_draws {types}
        {p}_ticket = arith.extui {area.slot} : i32 to i64
        {p}_fits = arith.cmpi ult, {p}_ticket, {p}_areas : i64
        {p}_mine = arith.andi {p}_fits, {p}_draws : i1
        {p}_none32 = arith.constant 0 : i32
        {p}_other32 = arith.constant 1 : i32
        {area.elsewhere} = arith.select {p}_mine, {p}_none32, {p}_other32 : i32
        """
    )
