"""op-spans: one span around every op of the chosen classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.analyses.walk import kernel_of, recordable_blocks
from profscope.instrument_passes.ir import Module, Op, Value
from profscope.instrument_passes.ir.signature import element_type
from profscope.instrument_passes.ops import DEFAULT_CLASSES, SPANNABLE, info_of
from profscope.instrument_passes.passes import Pass, PassContext, register
from profscope.instrument_passes.scopes import add_notes
from profscope.instrument_passes.spans import Spans
from profscope.instrument_passes.targets import target_of

__all__ = ["OpSpans"]

_READS: Final = ("load", "atomic", "local")


@register
@dataclass(frozen=True)
class OpSpans(Pass):
    """One span around every op of the chosen classes.

    A span ends at the op's issue, or at its completion if the op itself waits (docs/ops.md). If copies have
    no spans, the waits that end them have their bytes.

    classes: classes of ops; the default leaves out plain arithmetic and debugging aids.

    measure: "issue" or "latency"; with "latency" spans on ops that read memory end when the data has arrived,
    and have that in their names. If the target cannot wait for the data, a note says so.
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
        spans = Spans(module, context)
        target = target_of(module) if self.measure == "latency" else None
        not_waited: dict[str, None] = {}
        for block in recordable_blocks(kernel_of(module)):
            for op in tuple(block.ops):
                info = info_of(op)
                if info is None or info.cls not in self.classes:
                    continue
                data = op.results[0] if target is not None and info.cls in _READS and op.results else None
                if target is not None and data is not None and target.waitable(data.type):
                    spans.until_arrival(op, data)
                else:
                    spans.around(op, landing=0 if "async_copy" in self.classes else spans.landing_at(op))
                    if data is not None and not data.type.startswith("!"):
                        not_waited[_not_waited(op, data)] = None
        add_notes(module, list(not_waited))


def _not_waited(op: Op, data: Value) -> str:
    where = f" ({op.loc.file}:{op.loc.line})" if op.loc.line else ""
    return f"{op.name}{where} is shown until its issue: no wait is known for {element_type(data.type)} data"
