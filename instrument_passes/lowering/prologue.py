"""Values that every warp computes once: whether its CTA records, and the address of its records; and their
names in the lowering.

Short kernels pay mostly for this, so it is written for few instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profscope.instrument_passes.analyses.places import Places
from profscope.instrument_passes.dialect import BUFFER, is_record
from profscope.instrument_passes.ir import Module, Op, Region
from profscope.instrument_passes.lowering.builder import hole
from profscope.instrument_passes.records import (
    BASE_ALIGNMENT,
    MAX_STAMPED,
    MIN_RING_LOG2,
    STAMP,
    STAMPS_ALIGN,
    LaunchBits,
)
from profscope.instrument_passes.selection import ADDRESS_BITS, SPREAD, Selection
from profscope.instrument_passes.targets import Target

__all__ = ["Area", "Identity", "Program", "allocate", "find_area", "given_address", "lines", "set_up"]


@dataclass(frozen=True)
class Program:
    """calls: by call, the function that only this call calls. places: with these calls. marked: warps say
    which section they run. wide: see `given_address`; stamps: see `find_area`. shared: CTAs that do not
    record run the same body as those that do.
    """

    module: Module
    kernel: Op
    target: Target
    selection: Selection
    calls: Mapping[Op, Op]
    places: Places
    marked: bool
    wide: bool
    stamps: bool
    shared: bool


@dataclass(frozen=True, slots=True)
class Area:
    """SSA names of the CTA's area: address i64, less the launch header's size; flags i32: the launch bits,
    with anything above them.

    Known in the kernel's body only: cta i32, the linear id; slot i32, the number of its area; elsewhere i32,
    not zero where the CTA does not record; settled i32, the flags, or zero where it does not record; raw i64,
    the buffer's address with all bits.
    """

    address: str
    flags: str
    cta: str = ""
    slot: str = ""
    elsewhere: str = ""
    settled: str = ""
    raw: str = ""

    @staticmethod
    def fresh(module: Module) -> Area:
        names = ("ps_area", "ps_flags", "ps_cta", "ps_slot", "ps_elsewhere", "ps_settled", "ps_raw")
        return Area(*(module.fresh(name) for name in names))


@dataclass(frozen=True, slots=True)
class Identity:
    """SSA names of the facts that a warp needs about itself.

    awake: i1, true where the CTA records; leads: i1, true in the first lane of each warp there, which stores
    the warp's records; segment: i64, the address of the warp's segment less the sizes of both headers, in
    warp 0 that of the area less the launch header's; ring: i32, how far ring_log2 is above MIN_RING_LOG2;
    ring_mask: i32.
    """

    segment: str
    awake: str
    leads: str
    ring: str
    ring_mask: str

    @staticmethod
    def fresh(module: Module) -> Identity:
        names = ("ps_segment", "ps_awake", "ps_leads", "ps_ring", "ps_mask")
        return Identity(*(module.fresh(name) for name in names))


def allocate(buffer: str) -> str:
    """Text that allocates the buffer: once in a kernel."""
    return f'{buffer} = "{BUFFER}"() : () -> !tt.ptr<i8>'


def find_area(program: Program, area: Area, buffer: str, *, stamps: bool) -> str:
    """Text that finds this CTA's area in the buffer; stamps: behind those, where a launch has some."""
    p, target = program.module.fresh("ps"), program.target
    ids = program.selection.ids
    return lines(
        f"""
        {given_address(p, target, buffer, area.cta, area.raw, wide=program.wide)}
        {area.flags} = arith.trunci {area.raw} : i64 to i32
        {p}_high = arith.constant {(1 << ADDRESS_BITS) - BASE_ALIGNMENT} : i64
        {p}_base = arith.andi {area.raw}, {p}_high : i64
        {_behind_stamps(p, target) if stamps else ""}
        {_field(p, area.flags, LaunchBits.STRIDE_SHIFT, f"{p}_stride")}
        {_field(p, area.flags, LaunchBits.RING_SHIFT, f"{p}_ring")}
        {p}_rings = arith.constant {hole("cta_ring_bytes")} : i32
        {p}_variable = arith.shli {p}_rings, {p}_ring : i32
        {p}_constant = arith.constant {hole("cta_fixed_bytes")} : i32
        {p}_size = arith.addi {p}_constant, {p}_variable : i32
        {_in_list(p, area, ids) if ids else _spread(p, area)}
        {p}_none = arith.constant 0 : i32
        {p}_here = arith.cmpi eq, {area.elsewhere}, {p}_none : i32
        {area.settled} = arith.select {p}_here, {area.flags}, {p}_none : i32
        {target.multiply_add(area.address, area.slot, f"{p}_size", f"{p}_header" if stamps else f"{p}_base")}
        """
    )


def given_address(p: str, target: Target, buffer: str, cta: str, raw: str, *, wide: bool) -> str:
    """Text of `raw`, i64, the address that the launcher gave, and `cta`, i32, the linear id. p: prefix of
    other names.

    Triton adds linear id * tag to the address, which is taken back here, in the same words, so that LLVM
    drops both; wide: it does so in 64 bits (since 3.8) and not in 32.
    """
    added = (
        f"""
        {p}_tag = arith.constant {hole("tag")} : i64
        {p}_added = arith.muli {p}_cta64, {p}_tag : i64
        """
        if wide
        else f"""
        {p}_tag = arith.constant {hole("tag")} : i32
        {p}_narrow = arith.muli {cta}, {p}_tag : i32
        {p}_added = arith.extsi {p}_narrow : i32 to i64
        """
    )
    return f"""
        {target.linear_cta_id(cta)}
        {p}_cta64 = arith.extui {cta} : i32 to i64
        {added}
        {p}_nought = arith.constant 0 : i64
        {p}_negated = arith.subi {p}_nought, {p}_added : i64
        {p}_given = tt.addptr {buffer}, {p}_negated : !tt.ptr<i8>, i64
        {raw} = tt.ptr_to_int {p}_given : !tt.ptr<i8> -> i64
        """


def set_up(
    program: Program,
    region: Region,
    area: Area,
    identity: Identity,
    numbers: Mapping[str, int],
    before: str = "",
    after: str = "",
) -> Op:
    """Find the warp's segment at the start of a warp program, behind the records that open it.

    So the first clock is read first. numbers: i32 constants by
    name; before, after: text around that. Returns the first op of the program itself.
    """
    segment = _find_segment(program, area, identity)
    constants = "\n".join(f"{name} = arith.constant {n} : i32" for name, n in numbers.items() if name)
    first = next(op for op in region.entry.ops if not is_record(op))
    first.insert_before("\n".join(text for text in (before, segment, constants, after) if text))
    return first


def _find_segment(program: Program, area: Area, identity: Identity) -> str:
    """Text that finds the warp's segment in the CTA's area, and the lane that stores."""
    p, target = program.module.fresh("ps"), program.target
    return lines(
        f"""
        {target.thread_id(f"{p}_tid")}
        {p}_zero = arith.constant 0 : i32
        {p}_ones = arith.constant -1 : i32
        {p}_enable = arith.constant {LaunchBits.ENABLE} : i32
        {p}_lanes = arith.constant {target.lanes - 1} : i32
        {p}_disabled = arith.xori {area.flags}, {p}_ones : i32
        {p}_off = arith.andi {p}_disabled, {p}_enable : i32
        {p}_in_warp = arith.andi {p}_tid, {p}_lanes : i32
        {p}_asleep = arith.ori {p}_off, {area.elsewhere or f"{p}_zero"} : i32
        {identity.awake} = arith.cmpi eq, {p}_asleep, {p}_zero : i32
        {p}_not = arith.ori {p}_in_warp, {p}_asleep : i32
        {identity.leads} = arith.cmpi eq, {p}_not, {p}_zero : i32
        {p}_lanes_log2 = arith.constant {target.lanes.bit_length() - 1} : i32
        {p}_warp = arith.shrui {p}_tid, {p}_lanes_log2 : i32
        {_field(p, area.flags, LaunchBits.RING_SHIFT, identity.ring)}
        {p}_shortest = arith.constant {-(1 << MIN_RING_LOG2)} : i32
        {p}_above = arith.shli {p}_shortest, {identity.ring} : i32
        {identity.ring_mask} = arith.xori {p}_above, {p}_ones : i32
        {p}_rings = arith.constant {hole("ring_bytes")} : i32
        {p}_variable = arith.shli {p}_rings, {identity.ring} : i32
        {p}_constant = arith.constant {hole("fixed_bytes")} : i32
        {p}_size = arith.addi {p}_constant, {p}_variable : i32
        {target.multiply_add(identity.segment, f"{p}_warp", f"{p}_size", area.address)}
        """
    )


def _behind_stamps(p: str, target: Target) -> str:
    """`_header`: i64, where the launch header is; there is, with this prefix, `_base` i64."""
    each = STAMPS_ALIGN // STAMP.itemsize
    return f"""
        {target.cta_count(f"{p}_grid")}
        {p}_most = arith.constant {MAX_STAMPED} : i32
        {p}_stamped = arith.minui {p}_grid, {p}_most : i32
        {p}_more = arith.constant {each - 1} : i32
        {p}_rounded = arith.addi {p}_stamped, {p}_more : i32
        {p}_whole = arith.constant {-each} : i32
        {p}_stamps = arith.andi {p}_rounded, {p}_whole : i32
        {p}_stamps64 = arith.extui {p}_stamps : i32 to i64
        {p}_stamp_bytes = arith.constant {STAMP.itemsize} : i64
        {p}_behind = arith.muli {p}_stamps64, {p}_stamp_bytes : i64
        {p}_header = arith.addi {p}_base, {p}_behind : i64
        """


def _field(prefix: str, bits: str, shift: int, out: str) -> str:
    """`out`: i32, a field of launch bits."""
    return f"""
        {prefix}_at_{shift} = arith.constant {shift} : i32
        {prefix}_mask_{shift} = arith.constant {LaunchBits.MASK} : i32
        {prefix}_from_{shift} = arith.shrui {bits}, {prefix}_at_{shift} : i32
        {out} = arith.andi {prefix}_from_{shift}, {prefix}_mask_{shift} : i32
        """


def lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


# The area's `slot` and `elsewhere`. There is, with this prefix: `_stride` i32.


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
