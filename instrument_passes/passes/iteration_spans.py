"""iteration-spans: one span per iteration of every loop that has a loop span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.analyses.places import Places
from instrument_passes.analyses.walk import LOOPS, kernel_of, loop_body, recordable_blocks
from instrument_passes.dialect import BEGIN, SpanIds, begin
from instrument_passes.ir import Module, Op
from instrument_passes.passes.base import Pass, PassContext, register

__all__ = ["IterationSpans"]


@register
@dataclass(frozen=True)
class IterationSpans(Pass):
    """One span per iteration of every loop that has a loop span.

    It costs one clock read: an iteration lasts until the next one begins, or its loop ends. loop-spans comes
    before it.
    """

    name: ClassVar[str] = "iteration-spans"

    def apply(self, module: Module, context: PassContext) -> None:
        ids, places = SpanIds.of(module), Places(context.functions)
        for block in recordable_blocks(kernel_of(module)):
            ops = tuple(block.ops)
            for at, op in enumerate(ops):
                if op.name in LOOPS:
                    if not at or not _begins_loop(ops[at - 1]):
                        raise op.error("the loop has no span; put loop-spans before iteration-spans")
                    name = f"iteration{places.line_label(op)}"
                    loop_body(op).prepend(begin(ids.new(), "iteration", name, op.name), loc=op.loc_text)


def _begins_loop(op: Op) -> bool:
    return op.name == BEGIN and op.attributes["kind"] == '"loop"'
