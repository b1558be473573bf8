"""record-points: a record at every point of the record-cost kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.dialect import SpanIds, begin, end
from profscope.instrument_passes.ir import Module
from profscope.instrument_passes.passes import Pass, PassContext, register

__all__ = ["RecordPoints"]


@register
@dataclass(frozen=True)
class RecordPoints(Pass):
    """A begin before every other `// point`, its end before the next: no two records share a clock."""

    name: ClassVar[str] = "record-points"

    def apply(self, module: Module, context: PassContext) -> None:
        ids = SpanIds.of(module)
        points = [op for op in kernel_of(module).walk() if "// point" in op.first_line]
        for first, second in zip(points[::2], points[1::2], strict=True):
            span = ids.new()
            first.insert_before(begin(span, "op", f"span {span}", "point"))
            second.insert_before(end(span))
