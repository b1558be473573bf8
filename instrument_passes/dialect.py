"""The `profscope` dialect: what passes insert and `lower-records` lowers.

    "profscope.begin"() {id = 3 : i32, kind = "op", name = "ld", op = "tt.load", bytes = 64 : i64} : () -> ()
    "profscope.end"() {id = 3 : i32} : () -> ()

`id` ties a begin to its end (or to several: one per return). A begin of kind "iteration" stands first in
a loop's body and has no end: it lasts until the next iteration begins. The op's location is the source
line. `bytes` and `flops` are per execution and CTA (see `metrics.py`) and left out where they are 0.
Records next to each other share one clock read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from instrument_passes.ir import Module, Op

__all__ = ["BEGIN", "END", "SpanIds", "begin", "end", "integer", "is_record", "record_id"]

BEGIN: Final = "profscope.begin"
END: Final = "profscope.end"


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


def begin(span: int, kind: str, name: str, op: str, moved_bytes: int = 0, flops: int = 0) -> str:
    """Text of a begin record."""
    text = f'id = {span} : i32, kind = "{kind}", name = "{name}", op = "{op}"'
    if moved_bytes:
        text += f", bytes = {moved_bytes} : i64"
    if flops:
        text += f", flops = {flops} : i64"
    return f'"{BEGIN}"() {{{text}}} : () -> ()'


def end(span: int) -> str:
    """Text of an end record."""
    return f'"{END}"() {{id = {span} : i32}} : () -> ()'
