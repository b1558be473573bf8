"""kernel-span, loop-spans, iteration-spans: spans on the parts of a program that the source shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.analyses.places import Places
from profscope.instrument_passes.analyses.walk import LOOPS, kernel_of, loop_body, recordable_blocks
from profscope.instrument_passes.dialect import BEGIN, SpanIds, begin, end
from profscope.instrument_passes.ir import Module, Op, Region
from profscope.instrument_passes.passes import Pass, PassContext, register

__all__ = ["IterationSpans", "KernelSpan", "LoopSpans"]


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
    return op.name == BEGIN and op.attributes.get("kind") == '"loop"'
