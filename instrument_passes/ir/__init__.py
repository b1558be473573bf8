"""A small object model over Triton's printed TTGIR: read, walk, edit, print.

What is not edited prints byte for byte as it was read, whatever op, dialect or attribute it is. `for_op`,
`if_op`, `while_op`, `warp_specialize`, `func` and `blocks` thread more values through control flow and calls.
"""

from instrument_passes.ir import blocks, for_op, func, if_op, warp_specialize, while_op
from instrument_passes.ir.location import Caller, Location
from instrument_passes.ir.model import Alias, Block, Module, Op, Region, Value
from instrument_passes.ir.parser import parse
from instrument_passes.ir.uses import replace_uses

__all__ = [
    "Alias",
    "Block",
    "Caller",
    "Location",
    "Module",
    "Op",
    "Region",
    "Value",
    "blocks",
    "for_op",
    "func",
    "if_op",
    "parse",
    "replace_uses",
    "warp_specialize",
    "while_op",
]
