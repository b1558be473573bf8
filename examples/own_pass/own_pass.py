from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.dialect import SpanIds, begin, end, payload
from instrument_passes.passes import Pass, register


@register
@dataclass(frozen=True)
class LoadSteps(Pass):
    name: ClassVar[str] = "load-steps"  # spans the loads in loops and keeps the loop's variable
    column: str = "step"

    def apply(self, module, context):
        ids = SpanIds.of(module)
        for op in module.walk():
            if op.name == "tt.load" and op.parent_op.name == "scf.for":
                span = ids.new()
                step = op.parent.args[0]
                op.insert_before(begin(span, "op", "load in loop", op.name))
                op.insert_before(payload(span, self.column, step.name, step.type))
                op.insert_after(end(span))
