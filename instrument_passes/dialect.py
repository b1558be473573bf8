"""The `profscope` dialect: what passes insert and `lower-records` lowers.

    "profscope.begin"() {id = 3 : i32, kind = "op", name = "ld", op = "tt.load", bytes = 64 : i64} : () -> ()
    "profscope.payload"(%k) {id = 3 : i32, name = "step"} : (i32) -> ()
    "profscope.values"(%t) {id = 3 : i32} : (tensor<64xf16, #b>) -> ()
    "profscope.end"() {id = 3 : i32} : () -> ()

`id` ties a begin to its end (or to several: one per return). A begin of kind "iteration" stands first in
a loop's body and has no end: it lasts until the next iteration begins. The op's location is the source
line. `bytes` and `flops` are per execution and CTA (see `metrics.py`) and left out where they are 0.
`part`, `channel` and `pending` are those of an op with a role in asynchronous work (see `transactions.py`);
`stage`, `loop`, `ahead` and `peeled` those of an op of a pipelined loop (see `stages.py`).
A begin with an operand, an i1, is of an op that does nothing where that is false: then there is no span.
Records next to each other share one clock read. An end with an operand reads its clock once the operand's
data has arrived. A payload, an i32 or f32 the same in all threads of a warp,
stands between the begin and the end of its span, in the block of the begin; `name` is its column in the
table of spans. Values is four payloads, PROBED: the NaNs, the infinities, the least and the greatest finite
value of a tensor or scalar of floats, where its second operand, if it has one, is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from instrument_passes.analyses.transactions import Role
from instrument_passes.ir import Module, Op
from instrument_passes.ir.signature import with_element
from instrument_passes.ir.tokens import quote

if TYPE_CHECKING:
    from instrument_passes.analyses.loop_stages import Stage

__all__ = [
    "BEGIN",
    "BUFFER",
    "END",
    "PAYLOAD",
    "PROBED",
    "VALUES",
    "SpanIds",
    "begin",
    "end",
    "integer",
    "is_record",
    "payload",
    "record_id",
    "values",
]

BEGIN: Final = "profscope.begin"
END: Final = "profscope.end"
PAYLOAD: Final = "profscope.payload"
VALUES: Final = "profscope.values"
BUFFER: Final = "profscope.buffer"  # the memory; `allocate-buffer` spells it as a Triton version needs it
PROBED: Final = ("nans", "infs", "min", "max")


def is_record(op: Op) -> bool:
    """Whether an op is a record: a point in the warp's program whose time is wanted."""
    return op.name in (BEGIN, END)


def record_id(op: Op) -> int:
    """The id attribute of a record op."""
    return integer(op, "id")


def integer(op: Op, name: str) -> int:
    """An integer attribute of a record op, 0 if it is left out."""
    return int(op.attributes.get(name, "0").split(":")[0])


@dataclass
class SpanIds:
    """Hands out span ids that are new in a module."""

    next: int

    @staticmethod
    def of(module: Module) -> SpanIds:
        return SpanIds(1 + max((record_id(op) for op in module.walk() if is_record(op)), default=-1))

    def new(self) -> int:
        self.next += 1
        return self.next - 1


def begin(
    span: int,
    kind: str,
    name: str,
    op: str,
    moved_bytes: int = 0,
    flops: int = 0,
    role: Role | None = None,
    predicate: str = "",
    stage: Stage | None = None,
) -> str:
    """Text of a begin record; with a `predicate`, of a span that only is where that i1 is true."""
    text = f'id = {span} : i32, kind = "{kind}", name = {quote(name)}, op = "{op}"'
    if moved_bytes:
        text += f", bytes = {moved_bytes} : i64"
    if flops:
        text += f", flops = {flops} : i64"
    if role is not None:
        text += f', part = "{role.part}", channel = {role.channel} : i32, pending = {role.pending} : i32'
    if stage is not None:
        text += f', stage = "{stage.part}", loop = {stage.loop} : i32, ahead = {stage.ahead} : i32'
        text += f", peeled = {stage.peeled} : i32" if stage.peeled else ""
    return f'"{BEGIN}"({predicate}) {{{text}}} : ({"i1" if predicate else ""}) -> ()'


def end(span: int, value: str = "", kind: str = "") -> str:
    """Text of an end record; with a `value` of type `kind`, one that waits for the value's data."""
    return f'"{END}"({value}) {{id = {span} : i32}} : ({kind}) -> ()'


def payload(span: int, name: str, value: str, kind: str) -> str:
    """Text of a payload record: `value`, of type `kind` ("i32" or "f32"), is column `name` of the span."""
    return f'"{PAYLOAD}"({value}) {{id = {span} : i32, name = "{name}"}} : ({kind}) -> ()'


def values(span: int, value: str, kind: str, mask: str = "") -> str:
    """Text of a values record on `value` of type `kind`, counting where `mask`, if given, is true."""
    operands, types = (f"{value}, {mask}", f"{kind}, {with_element(kind, 'i1')}") if mask else (value, kind)
    return f'"{VALUES}"({operands}) {{id = {span} : i32}} : ({types}) -> ()'
