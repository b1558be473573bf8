"""The `profscope` dialect: ops that passes insert and `lower-records` lowers.

    "profscope.begin"() {id = 3 : i32, kind = "op", name = "ld", op = "tt.load", bytes = 64 : i64} : () -> ()
    "profscope.payload"(%k) {id = 3 : i32, name = "step"} : (i32) -> ()
    "profscope.end"() {id = 3 : i32} : () -> ()

`id` ties a begin to its end (or to several: one per return). A begin of kind "iteration" stands first in
a loop's body and has no end: it lasts until the next iteration begins. The op's location is the source
line; the other attributes are those of `manifest.SpanAttributes`. A begin with an operand, an i1, is of an
op that does nothing where that is false: then there is no span.
Records next to each other share one clock read. An end with an operand reads its clock once the operand's
data has arrived. A payload, an i32 or f32 the same in all threads of a warp,
stands between the begin and the end of its span, in the block of the begin; `name` is its column in the
table of spans.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from profscope.instrument_passes.ir import Module, Op
from profscope.instrument_passes.ir.tokens import quote, unquote
from profscope.instrument_passes.manifest import BITS, SpanAttributes

__all__ = [
    "BEGIN",
    "BUFFER",
    "END",
    "PAYLOAD",
    "SpanIds",
    "attributes_of",
    "begin",
    "end",
    "is_record",
    "payload",
    "record_id",
]

BEGIN: Final = "profscope.begin"
END: Final = "profscope.end"
PAYLOAD: Final = "profscope.payload"
BUFFER: Final = "profscope.buffer"  # the memory; `allocate-buffer` spells it as a Triton version needs it


def is_record(op: Op) -> bool:
    """Whether an op is a record: a point in the warp's program whose time is wanted."""
    return op.name in (BEGIN, END)


def record_id(op: Op) -> int:
    """The id attribute of a record op. Raises IRError if it has none."""
    return _integer(op, "id")


def _integer(op: Op, name: str) -> int:
    """An integer attribute, such as `3 : i32`."""
    number = op.integer(name)
    if number is None:
        raise op.error(f"expected an integer for attribute {name!r}")
    return number


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


def begin(span: int, kind: str, name: str, op: str, predicate: str = "", **more: Any) -> str:
    """Text of a begin record; with a `predicate`, of a span that only is where that i1 is true.

    more: further attributes of `SpanAttributes`, by name.
    """
    attributes = SpanAttributes(kind=kind, name=name, op=op, **more)
    text = ", ".join([f"id = {span} : i32", *_printed(attributes)])
    return f'"{BEGIN}"({predicate}) {{{text}}} : ({"i1" if predicate else ""}) -> ()'


def _printed(attributes: SpanAttributes) -> list[str]:
    texts = []
    for field in fields(attributes):
        value = getattr(attributes, field.name)
        if value != field.default:
            text = quote(value) if isinstance(value, str) else f"{value} : i{field.metadata.get(BITS, 32)}"
            texts.append(f"{field.name} = {text}")
    return texts


def attributes_of(record: Op) -> SpanAttributes:
    """The attributes of a begin record's span. Raises IRError if an attribute is missing or malformed."""
    values: dict[str, Any] = {}
    for field in fields(SpanAttributes):
        text = record.attributes.get(field.name)
        if text is None:
            if field.default is MISSING:
                raise record.error(f"a begin record needs the attribute {field.name!r}")
        elif field.type in ("str", str):
            if not text.startswith('"'):
                raise record.error(f"expected a string for attribute {field.name!r}")
            values[field.name] = unquote(text)
        else:
            values[field.name] = _integer(record, field.name)
    return SpanAttributes(**values)


def end(span: int, value: str = "", kind: str = "") -> str:
    """Text of an end record; with a `value` of type `kind`, one that waits for the value's data."""
    return f'"{END}"({value}) {{id = {span} : i32}} : ({kind}) -> ()'


def payload(span: int, name: str, value: str, kind: str) -> str:
    """Text of a payload record: `value`, of type `kind` ("i32" or "f32"), is column `name` of the span."""
    return f'"{PAYLOAD}"({value}) {{id = {span} : i32, name = "{name}"}} : ({kind}) -> ()'
