"""op-spans: one span around every op of the chosen classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from instrument_passes.analyses.drains import is_drain
from instrument_passes.analyses.loop_stages import stages
from instrument_passes.analyses.metrics import bytes_of, flops_of
from instrument_passes.analyses.opclasses import DEFAULT_CLASSES, SPANNABLE, info_of
from instrument_passes.analyses.predicates import predicate_of
from instrument_passes.analyses.transactions import roles
from instrument_passes.analyses.walk import call_name, kernel_of, recordable_blocks, source_name
from instrument_passes.dialect import SpanIds, begin, end
from instrument_passes.ir import Module
from instrument_passes.passes.base import Pass, PassContext, register
from instrument_passes.targets import target_of

__all__ = ["OpSpans"]

_READS: Final = ("load", "atomic", "local")


@register
@dataclass(frozen=True)
class OpSpans(Pass):
    """One span around every op of the chosen classes.

    Spans measure issue: where the op itself waits for its effect, they measure completion (see docs/ops.md).

    classes: which classes of ops; the default leaves out plain arithmetic and debugging aids. measure:
    "issue", or "latency": then spans on ops that read memory end when the data has arrived, and say so in
    their names. The warp waits there, so loads no longer overlap: it measures memory, not the kernel.
    """

    name: ClassVar[str] = "op-spans"
    classes: tuple[str, ...] = DEFAULT_CLASSES
    measure: str = "issue"

    def __post_init__(self) -> None:
        unknown = [c for c in self.classes if c not in SPANNABLE]
        if unknown:
            raise ValueError(f"unknown op class {unknown[0]!r}; classes: {', '.join(SPANNABLE)}")
        if self.measure not in ("issue", "latency"):
            raise ValueError(f"measure={self.measure} is neither issue nor latency")

    def apply(self, module: Module, context: PassContext) -> None:
        ids = SpanIds.of(module)
        role_of = roles(kernel_of(module))
        stage_of = stages(kernel_of(module))
        target = target_of(module) if self.measure == "latency" else None
        for block in recordable_blocks(kernel_of(module)):
            for op in tuple(block.ops):
                info = info_of(op)
                if info is None or info.cls not in self.classes:
                    continue
                span = ids.new()
                name = call_name(op) if op.name == "tt.call" else source_name(op, info.label)
                if is_drain(op):
                    name = f"{info.label} (drain)"
                data = op.results[0] if target is not None and info.cls in _READS and op.results else None
                if target is None or data is None or not target.waitable(data.type):
                    role, on, stage = role_of.get(op), predicate_of(op), stage_of.get(op)
                    op.insert_before(
                        begin(span, "op", name, op.name, bytes_of(op), flops_of(op), role, on, stage)
                    )
                    op.insert_after(end(span))
                    continue
                op.insert_before(begin(span, "op", f"{name} latency", op.name, bytes_of(op), flops_of(op)))
                op.insert_after(end(span, data.name, data.type))
