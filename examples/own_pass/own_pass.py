from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.dialect import payload
from profscope.instrument_passes.passes import Pass, register
from profscope.instrument_passes.spans import Spans


@register
@dataclass(frozen=True)
class LoadSteps(Pass):
    """One span around every load in a loop, with the loop's variable as a column.

    column: what the column is called."""

    name: ClassVar[str] = "load-steps"
    column: str = "step"

    def apply(self, module, context):
        spans = Spans(module, context)
        for op in module.walk():
            if op.name == "tt.load" and op.parent_op.name == "scf.for":
                span = spans.around(op, "load in loop")
                step = op.parent.args[0]
                op.insert_before(payload(span, self.column, step.name, step.type))
