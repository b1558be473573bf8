"""A small object model over Triton's printed TTGIR: read, walk, edit, print.

What is not edited prints byte for byte as it was read, whatever op, dialect or attribute it is.
"""

from instrument_passes.ir.location import Location
from instrument_passes.ir.model import Alias, Block, Module, Op, Region, Value
from instrument_passes.ir.parser import parse

__all__ = ["Alias", "Block", "Location", "Module", "Op", "Region", "Value", "parse"]
