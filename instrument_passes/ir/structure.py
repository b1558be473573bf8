"""What passes rely on beyond the form of the text: how many operands and regions known ops have.

Triton's verifier holds far more, but passes also see modules that it has never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ir import warp_specialize
from instrument_passes.ir.model import Module, Op

__all__ = ["check_structure"]

# At least so many operands, and none but so many.
_LEAST_OPERANDS: Final[Mapping[str, int]] = {
    "scf.for": 3,
    "scf.if": 1,
    "scf.condition": 1,
    "ttng.wait_barrier": 2,
    "llvm.intr.assume": 1,
}
_OPERANDS: Final[Mapping[str, int]] = dict.fromkeys(
    ("arith.addi", "arith.subi", "arith.muli", "arith.cmpi", "arith.cmpf"), 2
)
_VIEWS: Final = "ttg.memdesc_"  # of another piece of memory
_REGIONS: Final[Mapping[str, tuple[int, int]]] = {
    "scf.for": (1, 1),
    "scf.if": (1, 2),
    "scf.while": (2, 2),
    "tt.func": (0, 1),
    "ttg.warp_specialize": (1, 64),
}
_PROGRAMS: Final = ("tt.func", "ttg.warp_specialize")  # their regions are what warps run


def check_structure(module: Module) -> None:
    """Raises IRError naming the first op that has not what it needs, and its line."""
    for op in module.walk():
        _check_operands(op)
        least, most = _REGIONS.get(op.name, (0, len(op.regions)))
        if not least <= len(op.regions) <= most:
            raise op.error(f"expected {_range(least, most)} regions, found {len(op.regions)}")
        if op.name == "scf.for" and len(op.header.result_names) != len(op.operands) - 3:
            raise op.error("expected a result for each value that the loop starts with")
        if op.name == "scf.if":
            _check_yields(op)
        elif op.name in _PROGRAMS:
            _check_ends(op)
        if op.name == "ttg.warp_specialize":
            _check_captures(op)


def _check_operands(op: Op) -> None:
    exact = _OPERANDS.get(op.name)
    least = _LEAST_OPERANDS.get(op.name, exact or int(op.name.startswith(_VIEWS)))
    count = len(op.operands)
    if count < least or (exact is not None and count > exact):
        raise op.error(f"expected {'' if exact else 'at least '}{least} operands, found {count}")


def _check_yields(branch: Op) -> None:
    """Each region of a branch with results hands on a value for each."""
    results = len(branch.header.result_names)
    for region in branch.regions:
        end = region.entry.terminator
        handed_on = 0 if end is None else len(end.operands)
        if handed_on != results:
            raise branch.error(f"expected {results} values from each region, found {handed_on}")


def _check_captures(op: Op) -> None:
    """Each partition knows what it captures by a name of its own."""
    captured = len(op.operands)
    for partition in warp_specialize.partitions(op):
        if len(partition.args) != captured:
            raise op.error(
                f"expected {captured} arguments of partition {partition.index}, found {len(partition.args)}"
            )


def _check_ends(op: Op) -> None:
    """Control leaves every block by its last op."""
    for block in (block for region in op.regions for block in region.blocks):
        if block.terminator is None:
            raise (block.ops[-1] if block.ops else op).error("expected a terminator at the end of the block")


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
