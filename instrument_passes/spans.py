"""Spans around ops, with the facts of the analyses filled in, for most passes.

spans = Spans(module, context)
span = spans.around(op)                      # named after the op, with its bytes, flops, ...
op.insert_before(payload(span, "step", "%k", "i32"))
"""

from __future__ import annotations

from typing import Any

from profscope.instrument_passes.analyses.async_roles import roles
from profscope.instrument_passes.analyses.loop_stages import predicate_of, stages
from profscope.instrument_passes.analyses.metrics import bytes_of, flops_of, landing_bytes, phase_bytes
from profscope.instrument_passes.analyses.places import Places, awaited, op_name
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.dialect import SpanIds, begin, end
from profscope.instrument_passes.ir import Module, Op, Value
from profscope.instrument_passes.passes import PassContext

__all__ = ["Spans"]


class Spans:
    """Puts spans around ops of one module. Make it before the pass inserts anything."""

    def __init__(self, module: Module, context: PassContext) -> None:
        self._ids = SpanIds.of(module)
        self._roles = roles(kernel_of(module))
        self._stages = stages(kernel_of(module))
        self._places = Places(context.functions)
        self._awaited = awaited(module)
        self._phases = phase_bytes(self._roles)

    def new_id(self) -> int:
        """For a span that the pass itself writes, with `dialect.begin` and `dialect.end`."""
        return self._ids.new()

    def name_of(self, op: Op) -> str:
        """The default name of a span on the op."""
        return op_name(op, self._places, self._awaited)

    def landing_at(self, op: Op) -> int:
        """Bytes of copies that arrive with an op that waits for them, else 0: see `analyses.metrics`."""
        return self._phases.get(op) or landing_bytes(op)

    def around(self, op: Op, name: str = "", landing: int = 0) -> int:
        """Put a span around an op, called `name` or else after the op; returns its id.

        The span has the op's bytes and flops, its predicate (if false, there is no span), its role in
        asynchronous work and its stage of a pipelined loop. `landing` are bytes of copies that have no spans
        themselves and arrive with this op (`landing_at`). Ops inserted before the op afterwards, such as a
        payload, are in the span.
        """
        span, known = self.new_id(), self._known_of(op)
        known["bytes"] += landing
        op.insert_before(begin(span, "op", name or self.name_of(op), op.name, predicate_of(op), **known))
        op.insert_after(end(span))
        return span

    def until_arrival(self, op: Op, value: Value, name: str = "") -> int:
        """Put a span around an op that lasts until the data of `value`, a result of it, has arrived.

        The warp waits for it there, so the span is neither of asynchronous work nor of a stage. The target
        must know how: see `Target.waitable`.
        """
        span = self.new_id()
        op.insert_before(begin(span, "op", name or f"{self.name_of(op)} latency", op.name, **_work(op)))
        op.insert_after(end(span, value.name, value.type))
        return span

    def _known_of(self, op: Op) -> dict[str, Any]:
        known: dict[str, Any] = _work(op)
        role, stage = self._roles.get(op), self._stages.get(op)
        if role is not None:
            known |= {"part": role.part, "channel": role.channel, "pending": role.pending}
        if stage is not None:
            known |= {
                "stage": stage.part, "loop": stage.loop, "ahead": stage.ahead, "peeled": stage.peeled
            }  # fmt: skip
        return known


def _work(op: Op) -> dict[str, Any]:
    return {"bytes": bytes_of(op), "flops": flops_of(op)}
