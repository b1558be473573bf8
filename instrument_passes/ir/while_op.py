"""scf.while: carry more values through both of its regions.

%r = scf.while (%before = %init) : (T) -> T {
  scf.condition(%go_on) %value : T
} do {
^bb0(%after: T):
  scf.yield %next : T
}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instrument_passes.ir import edit
from instrument_passes.ir.model import Op
from instrument_passes.ir.signature import signature_range, type_list

__all__ = ["Carried", "add_carried", "set_condition_extra", "set_yield_extra"]


@dataclass(frozen=True)
class Carried:
    """Names of the carried values in the before region, in the after region, and behind the loop."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    results: tuple[str, ...]


def add_carried(op: Op, inits: Sequence[tuple[str, str]]) -> Carried:
    """Carry more values, given as (initial value, type), through the before region, the after region and out.

    The loop is incomplete until `set_condition_extra` and `set_yield_extra` say what each region hands on.
    """
    if op.name != "scf.while" or len(op.regions) != 2:
        raise op.error("expected an scf.while with two regions")
    if not inits:
        return Carried((), (), ())
    fresh = op.module.fresh
    names = [(fresh(), fresh(), fresh()) for _ in inits]
    types = [kind for _, kind in inits]
    bound = [f"{before} = {init}" for (before, _, _), (init, _) in zip(names, inits, strict=True)]
    header = op.header
    list_start = header.name_index + 1
    if header.pieces[list_start].text == "(":
        bind = edit.add_list_items(header, list_start, bound)
    else:
        bind = edit.insert_behind(header, header.name_index, f" ({', '.join(bound)})")
    edits = [edit.add_results(header, [result for _, _, result in names]), bind]
    op.splice(edits + edit.add_signature_types(op, types, types))
    for (_, after, _), kind in zip(names, types, strict=True):
        edit.label_argument(op.regions[1].entry, after, kind)
    before, after_names, results = zip(*names, strict=True)
    return Carried(before, after_names, results)


def set_condition_extra(op: Op, values: Sequence[str]) -> None:
    """Hand `values` from the before region on, for what its scf.condition does not pass yet."""
    terminator = edit.ensure_terminator(op.regions[0].entry, "scf.condition")
    _extend(op, terminator, values, _types(op)[1][len(terminator.operands) - 1 :])


def set_yield_extra(op: Op, values: Sequence[str]) -> None:
    """Yield `values` from the after region, for what its scf.yield does not pass yet."""
    terminator = edit.ensure_terminator(op.regions[1].entry, "scf.yield")
    _extend(op, terminator, values, _types(op)[0][len(terminator.operands) :])


def _types(op: Op) -> tuple[list[str], list[str]]:
    header = op.header
    start, end = signature_range(header)
    arrow = header.find("->", start, end)
    if op.name != "scf.while" or arrow is None:
        raise op.error("expected an scf.while with `: (types) -> types`")
    return type_list(header, start, arrow), type_list(header, arrow + 1, end)


def _extend(op: Op, terminator: Op, values: Sequence[str], missing: Sequence[str]) -> None:
    if len(values) != len(missing):
        raise op.error(f"expected {len(missing)} values to hand on, found {len(values)}")
    edit.extend_terminator(terminator, values, missing)
