"""ttg.warp_specialize: a default region and partitions of further warps, which see captured values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profscope.instrument_passes.ir import edit
from profscope.instrument_passes.ir.model import Op, Region, Value

__all__ = ["Partition", "add_capture", "add_results", "partitions"]


@dataclass(frozen=True)
class Partition:
    """`args` are the captured operands as the partition sees them, in the order of the operands."""

    index: int
    region: Region
    num_warps: int
    args: tuple[Value, ...]


def partitions(op: Op) -> list[Partition]:
    """The isolated partitions, in order."""
    _check(op)
    header = op.header
    names = _partition_names(op)
    if len(names) != len(op.regions) - 1:
        raise op.error(f"expected a region for each of {len(names)} partitions, and the default region")
    listed = []
    for index, (region, name) in enumerate(zip(op.regions[1:], names, strict=True)):
        end = len(header.pieces)
        body = next((i for i in range(name, end) if header.pieces[i].kind == "region"), end)
        warps = header.find("num_warps", name, body)
        number = "" if warps is None else "".join(p.text for p in header.pieces[warps + 2 : warps + 3])
        if not number.isdecimal() or not region.blocks:
            raise op.error(f"expected num_warps(...) and a body for partition {index}")
        listed.append(Partition(index, region, int(number), tuple(region.entry.args)))
    return listed


def add_capture(op: Op, operand: str, kind: str) -> list[str]:
    """Hand `operand`, of type `kind`, to every partition; returns its name in each."""
    _check(op)
    header = op.header
    names = [op.module.fresh() for _ in op.regions[1:]]
    edits = [edit.add_list_items(header, header.name_index + 1, [operand])]
    for start, name in zip(_partition_names(op), names, strict=True):
        edits.append(edit.add_list_items(header, start + 1, [f"{name}: {kind}"]))
    op.splice(edits + edit.add_signature_types(op, [kind], []))
    return names


def add_results(op: Op, kinds: Sequence[str], values: Sequence[str]) -> list[str]:
    """Yield more values from the default region; returns the names of the new results."""
    _check(op)
    names = [op.module.fresh() for _ in kinds]
    op.splice([edit.add_results(op.header, names), *edit.add_signature_types(op, [], kinds)])
    edit.extend_terminator(edit.ensure_terminator(op.regions[0].entry, "ttg.warp_yield"), values, kinds)
    return names


def _check(op: Op) -> None:
    if op.name != "ttg.warp_specialize":
        raise op.error("expected a ttg.warp_specialize")


def _partition_names(op: Op) -> list[int]:
    header = op.header
    return [i for i in header.top_level() if header.pieces[i].text.startswith("partition")]
