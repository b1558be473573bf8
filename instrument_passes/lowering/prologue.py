"""What every warp computes once: where its records go, and whether it records at all."""

from __future__ import annotations

from dataclasses import dataclass

from instrument_passes.ir import Module
from instrument_passes.lowering.builder import Placeholders
from instrument_passes.lowering.choose import choose_area, choose_warp
from instrument_passes.records import BASE_ALIGNMENT, CTA_HEADER, LaunchBits
from instrument_passes.selection import Selection
from instrument_passes.targets import Target

__all__ = ["Area", "Identity", "find_area", "find_segment"]


@dataclass(frozen=True, slots=True)
class Area:
    """SSA names of the CTA's area: address i64; flags i32: the launch bits, 0 where it does not record; and
    cta i32, its linear id (not known in partitions)."""

    address: str
    flags: str
    cta: str = ""

    @staticmethod
    def fresh(module: Module) -> Area:
        return Area(module.fresh("ps_area"), module.fresh("ps_flags"), module.fresh("ps_cta"))


@dataclass(frozen=True, slots=True)
class Identity:
    """SSA names of what a warp needs to know about itself.

    segment: i64 address; lane: i1, true in the lane that stores the warp's records; leader: i1, true in the
    thread that writes the CTA's header (of use in the kernel's body only); ring_log2: i64; ring_mask: i32.
    """

    segment: str
    lane: str
    leader: str
    ring_log2: str
    ring_mask: str

    @staticmethod
    def fresh(module: Module) -> Identity:
        names = ("ps_segment", "ps_lane", "ps_leader", "ps_log2", "ps_mask")
        return Identity(*(module.fresh(name) for name in names))


def find_area(
    module: Module, target: Target, area: Area, holes: Placeholders, selection: Selection, *, wide: bool
) -> str:
    """Text that allocates the buffer and finds this CTA's area in it.

    Triton adds linear id * tag to the address the allocator gave, which is taken back here; wide says
    whether it does so in 64 bits (since 3.8) or in 32, sign-extended.
    """
    p = module.fresh("ps")
    undo = (
        f"""
        {p}_tag = arith.constant {holes.tag()} : i64
        {p}_added = arith.muli {p}_id64, {p}_tag : i64
        """
        if wide
        else f"""
        {p}_tag = arith.constant {holes.tag()} : i32
        {p}_narrow = arith.muli {area.cta}, {p}_tag : i32
        {p}_added = arith.extsi {p}_narrow : i32 to i64
        """
    )
    return _lines(
        f"""
        {p}_buffer = "profscope.buffer"() : () -> !tt.ptr<i8>
        {p}_address = tt.ptr_to_int {p}_buffer : !tt.ptr<i8> -> i64
        {target.linear_cta_id(area.cta)}
        {p}_id64 = arith.extui {area.cta} : i32 to i64
        {undo}
        {p}_raw = arith.subi {p}_address, {p}_added : i64
        {p}_bits = arith.trunci {p}_raw : i64 to i32
        {p}_high = arith.constant {-BASE_ALIGNMENT} : i64
        {p}_base = arith.andi {p}_raw, {p}_high : i64
        {p}_field = arith.constant {LaunchBits.MASK} : i32
        {p}_shift = arith.constant {LaunchBits.STRIDE_SHIFT} : i32
        {p}_from = arith.shrui {p}_bits, {p}_shift : i32
        {p}_stride = arith.andi {p}_from, {p}_field : i32
        {p}_enabled = arith.trunci {p}_bits : i32 to i1
        {_ring_log2(p, f"{p}_bits", f"{p}_log2")}
        {p}_rings = arith.constant {holes.cta_ring_bytes()} : i64
        {p}_variable = arith.shli {p}_rings, {p}_log2 : i64
        {p}_constant = arith.constant {holes.cta_fixed_bytes()} : i64
        {p}_size = arith.addi {p}_constant, {p}_variable : i64
        {choose_area(p, target, area.cta, selection)}
        {p}_recorded = arith.andi {p}_mine, {p}_enabled : i1
        {p}_none = arith.constant 0 : i32
        {area.flags} = arith.select {p}_recorded, {p}_bits, {p}_none : i32
        {p}_slot64 = arith.extui {p}_slot : i32 to i64
        {p}_offset = arith.muli {p}_slot64, {p}_size : i64
        {area.address} = arith.addi {p}_base, {p}_offset : i64
        """
    )


def find_segment(
    module: Module,
    target: Target,
    area: Area,
    identity: Identity,
    holes: Placeholders,
    selection: Selection,
) -> str:
    """Text that finds the warp's segment in the CTA's area, and the lane that stores."""
    p = module.fresh("ps")
    segment = first = ""
    if selection.warps:
        segment = choose_warp(p, target, selection.warps)
        first = f"{p}_stores = arith.andi {p}_first, {p}_chosen : i1"
    return _lines(
        f"""
        {target.thread_id(f"{p}_tid")}
        {p}_zero = arith.constant 0 : i32
        {p}_one = arith.constant 1 : i32
        {p}_lanes_log2 = arith.constant {target.lanes.bit_length() - 1} : i32
        {p}_warp = arith.shrui {p}_tid, {p}_lanes_log2 : i32
        {segment}
        {p}_recorded = arith.trunci {area.flags} : i32 to i1
        {p}_lanes = arith.constant {target.lanes - 1} : i32
        {p}_in_warp = arith.andi {p}_tid, {p}_lanes : i32
        {p}_first = arith.cmpi eq, {p}_in_warp, {p}_zero : i32
        {first}
        {identity.lane} = arith.andi {p}_{"stores" if first else "first"}, {p}_recorded : i1
        {p}_lead = arith.cmpi eq, {p}_tid, {p}_zero : i32
        {identity.leader} = arith.andi {p}_lead, {p}_recorded : i1
        {_ring_log2(f"{p}_seg", area.flags, identity.ring_log2)}
        {p}_log2 = arith.trunci {identity.ring_log2} : i64 to i32
        {p}_rows = arith.shli {p}_one, {p}_log2 : i32
        {identity.ring_mask} = arith.subi {p}_rows, {p}_one : i32
        {p}_rings = arith.constant {holes.ring_bytes()} : i64
        {p}_variable = arith.shli {p}_rings, {identity.ring_log2} : i64
        {p}_constant = arith.constant {holes.fixed_bytes()} : i64
        {p}_size = arith.addi {p}_constant, {p}_variable : i64
        {p}_segment64 = arith.extui {p}_{"segment" if segment else "warp"} : i32 to i64
        {p}_offset = arith.muli {p}_segment64, {p}_size : i64
        {p}_header = arith.constant {CTA_HEADER.itemsize} : i64
        {p}_segments = arith.addi {area.address}, {p}_header : i64
        {identity.segment} = arith.addi {p}_segments, {p}_offset : i64
        """
    )


def _ring_log2(prefix: str, flags: str, out: str) -> str:
    """`out`: i64, the ring_log2 field of the flags; zero where the CTA does not record."""
    return f"""
        {prefix}_ring_at = arith.constant {LaunchBits.RING_SHIFT} : i32
        {prefix}_ring_mask = arith.constant {LaunchBits.MASK} : i32
        {prefix}_ring_from = arith.shrui {flags}, {prefix}_ring_at : i32
        {prefix}_ring = arith.andi {prefix}_ring_from, {prefix}_ring_mask : i32
        {out} = arith.extui {prefix}_ring : i32 to i64
        """


def _lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
