"""value-probe: what is in the tensors that chosen ops make: NaNs, denormals, least and greatest value, ..."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.analyses.places import Places, is_library, op_name
from profscope.instrument_passes.analyses.walk import kernel_of, recordable_blocks
from profscope.instrument_passes.dialect import END, VALUES, SpanIds, begin, end, values
from profscope.instrument_passes.ir import Location, Module, Op
from profscope.instrument_passes.ir.signature import element_type, with_element
from profscope.instrument_passes.manifest import VALUES_OF
from profscope.instrument_passes.ops import SPANNABLE, OpInfo, info_of
from profscope.instrument_passes.passes import Pass, PassContext, register

__all__ = ["ValueProbe"]

_FLOATS: Final = frozenset({"f64", "f32", "f16", "bf16", "f8E5M2", "f8E4M3FN"})
# They move values that another op has made; probed only where they are asked for.
_SAME_VALUES: Final = ("layout", "local")
_MASKED: Final = frozenset({"tt.load", "tt.store", "tt.atomic_rmw"})


@register
@dataclass(frozen=True)
class ValueProbe(Pass):
    """What is in the tensors that chosen ops make: NaNs, infinities, denormals, least and greatest value.

    These become columns of a span behind the op (see "Values" below). An op is probed if it meets every
    condition given; give one at least.

    classes: classes of ops, as for op-spans.

    ops: names of ops, such as tt.dot.

    lines: numbers of source lines.

    names: names of variables in the source.
    """

    name: ClassVar[str] = "value-probe"
    classes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.classes or self.ops or self.lines or self.names):
            raise ValueError("which values? choose ops by classes=, ops=, lines= or names=")
        unknown = [c for c in self.classes if c not in SPANNABLE]
        if unknown:
            raise ValueError(f"unknown op class {unknown[0]!r}; classes: {', '.join(SPANNABLE)}")
        wrong = [line for line in self.lines if not line.isdecimal()]
        if wrong:
            raise ValueError(f"lines={wrong[0]} is not a line's number")

    def apply(self, module: Module, context: PassContext) -> None:
        ids, places = SpanIds.of(module), Places(context.functions)
        for block in recordable_blocks(kernel_of(module)):
            for op in tuple(block.ops):
                info = info_of(op)
                if info is None or not self._chosen(op, info):
                    continue
                value = _value(op, stored=info.cls == "store")
                if value is None:
                    continue
                span, (name, kind) = ids.new(), value
                shown = VALUES_OF + op_name(op, places, {})
                probe = (
                    begin(span, "op", shown, VALUES),
                    values(span, name, kind, _mask(op, kind)),
                    end(span),
                )
                _behind_its_records(op).insert_after("\n".join(probe), op.loc_text)

    def _chosen(self, op: Op, info: OpInfo) -> bool:
        if info.cls not in SPANNABLE or (info.cls in _SAME_VALUES and not (self.ops or self.classes)):
            return False
        return (
            (not self.classes or info.cls in self.classes)
            and (not self.ops or op.name in self.ops)
            and (not self.lines or not _lines(op.loc).isdisjoint(self.lines))
            and (not self.names or not _names(op.loc).isdisjoint(self.names))
        )


def _lines(location: Location) -> set[str]:
    """Of the op and of all calls that inlined it, but those in Triton's own package."""
    lines = [(location.file, location.line), *((caller.file, caller.line) for caller in location.callers)]
    return {str(line) for file, line in lines if not is_library(file)}


def _names(location: Location) -> set[str]:
    return {location.name, *(caller.name for caller in location.callers)} - {""}


def _value(op: Op, *, stored: bool) -> tuple[str, str] | None:
    """The first value of floats that the op makes or, if it is a store, reads; its name and type."""
    candidates = [(value.name, value.type) for value in op.results]
    if stored:
        candidates += zip(op.operands, op.operand_types, strict=True)
    return next(((name, kind) for name, kind in candidates if element_type(kind) in _FLOATS), None)


def _mask(op: Op, kind: str) -> str:
    """The mask of a load, store or atomic whose values are of type `kind`; "" if it has none."""
    if op.name not in _MASKED:
        return ""
    wanted = with_element(kind, "i1")
    return next((name for name, of in zip(op.operands, op.operand_types, strict=True) if of == wanted), "")


def _behind_its_records(op: Op) -> Op:
    """The op, or the last record that ends behind it: the probe's time is not the op's."""
    assert op.parent is not None
    ops = op.parent.ops
    at = ops.index(op)
    while at + 1 < len(ops) and ops[at + 1].name == END:
        at += 1
    return ops[at]
