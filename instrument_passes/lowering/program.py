"""What is the same for all warp programs of a kernel while its records are lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instrument_passes.analyses.places import Places
from instrument_passes.ir import Module, Op
from instrument_passes.lowering.builder import Placeholders
from instrument_passes.selection import Selection
from instrument_passes.targets import Target

__all__ = ["Program"]


@dataclass(frozen=True)
class Program:
    """calls: by call, the function that only this call calls. places: with these calls. marked: warps say
    which section they run. wide, stamps: see `find_area`. shared: CTAs that do not record run the same body
    as those that do.
    """

    module: Module
    kernel: Op
    target: Target
    holes: Placeholders
    selection: Selection
    calls: Mapping[Op, Op]
    places: Places
    marked: bool
    wide: bool
    stamps: bool
    shared: bool
