"""A small object model over Triton's printed TTGIR: read, walk, edit, print.

Unedited text prints byte for byte as it was read, whatever op, dialect or attribute it is. `flow` carries
more values through control flow and calls.
"""

from profscope.instrument_passes.ir import flow
from profscope.instrument_passes.ir.location import Caller, Location
from profscope.instrument_passes.ir.model import Alias, Block, Module, Op, Region, Value
from profscope.instrument_passes.ir.parser import check_structure, parse

__all__ = [
    "Alias",
    "Block",
    "Caller",
    "Location",
    "Module",
    "Op",
    "Region",
    "Value",
    "check_structure",
    "flow",
    "parse",
]
