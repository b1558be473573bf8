"""What the lowering of a kernel's records works on: the program, and the SSA names of where records go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profscope.instrument_passes.analyses.places import Places
from profscope.instrument_passes.ir import Module, Op
from profscope.instrument_passes.selection import Selection
from profscope.instrument_passes.targets import Target

__all__ = ["Area", "Identity", "Program"]


@dataclass(frozen=True)
class Program:
    """calls: by call, the function that only this call calls. places: with these calls. marked: warps say
    which section they run. wide, stamps: see `find_area`. shared: CTAs that do not record run the same body
    as those that do.
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
    """SSA names of what a warp needs to know about itself.

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
