"""iteration-spans: one span per iteration of every loop that has a loop span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.dialect import SpanIds, begin
from instrument_passes.ir import Module
from instrument_passes.passes.base import Pass, PassContext, register
from instrument_passes.passes.walk import LOOPS, kernel_of, loop_body, recordable_blocks

__all__ = ["IterationSpans"]


@register
@dataclass(frozen=True)
class IterationSpans(Pass):
    """One span per iteration of every loop that has a loop span.

    It costs one clock read: an iteration lasts until the next one begins, or its loop ends.
    """

    name: ClassVar[str] = "iteration-spans"

    def apply(self, module: Module, context: PassContext) -> None:
        ids = SpanIds.of(module)
        for block in recordable_blocks(kernel_of(module)):
            for op in tuple(block.ops):
                if op.name in LOOPS:
                    name = f"iteration L{op.loc.line}"
                    loop_body(op).prepend(begin(ids.new(), "iteration", name, op.name), loc=op.loc_text)
