"""loop-spans: one span per execution of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.analyses.places import Places
from instrument_passes.analyses.walk import LOOPS, kernel_of, recordable_blocks
from instrument_passes.dialect import SpanIds, begin, end
from instrument_passes.ir import Module
from instrument_passes.passes.base import Pass, PassContext, register

__all__ = ["LoopSpans"]


@register
@dataclass(frozen=True)
class LoopSpans(Pass):
    """One span per execution of a loop, `scf.for` or `scf.while`, called "loop L12" after its line."""

    name: ClassVar[str] = "loop-spans"

    def apply(self, module: Module, context: PassContext) -> None:
        ids, places = SpanIds.of(module), Places(context.functions)
        for block in recordable_blocks(kernel_of(module)):
            for op in tuple(block.ops):
                if op.name in LOOPS:
                    span = ids.new()
                    op.insert_before(begin(span, "loop", f"loop{places.line_label(op)}", op.name))
                    op.insert_after(end(span))
