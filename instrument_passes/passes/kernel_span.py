"""kernel-span: one span per warp from the kernel's first op to its return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.analyses.walk import kernel_of
from instrument_passes.dialect import SpanIds, begin, end
from instrument_passes.ir import Module, Op, Region
from instrument_passes.passes.base import Pass, PassContext, register

__all__ = ["KernelSpan"]


@register
@dataclass(frozen=True)
class KernelSpan(Pass):
    """One span per warp, from the kernel's first op to its return.

    A kernel may return in several places. A warp-specialised partition has a span of its own.
    """

    name: ClassVar[str] = "kernel-span"

    def apply(self, module: Module, context: PassContext) -> None:
        kernel = kernel_of(module)
        ids = SpanIds.of(module)
        symbol = kernel.symbol or "kernel"
        _span(kernel.regions[0], kernel, "tt.return", symbol, ids)
        for op in kernel.walk():
            if op.name != "ttg.warp_specialize":
                continue
            for index, partition in enumerate(op.regions[1:]):
                _span(partition, op, "ttg.warp_return", f"{symbol} partition{index}", ids)


def _span(region: Region, around: Op, terminator: str, name: str, ids: SpanIds) -> None:
    span = ids.new()
    region.entry.prepend(begin(span, "kernel", name, around.name), loc=around.loc_text)
    for block in region.blocks:
        for op in tuple(block.ops):
            if op.name == terminator:
                op.insert_before(end(span))
