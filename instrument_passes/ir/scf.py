"""scf.for, scf.while and scf.if: read a loop, and carry more values through them.

`carry` and `hand_on` take loops of either kind. An scf.while has two regions:

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

from profscope.instrument_passes.ir import edit
from profscope.instrument_passes.ir.model import Block, Op, Region
from profscope.instrument_passes.ir.signature import for_types

__all__ = ["Carried", "ForLoop", "add_if_results", "carry", "hand_on", "read_for"]


@dataclass(frozen=True)
class ForLoop:
    """`%induction = %lower to %upper step %step iter_args(name = init, ...) -> (types)`, as value names."""

    induction: str
    lower: str
    upper: str
    step: str
    induction_type: str
    iter_args: tuple[tuple[str, str], ...]
    types: tuple[str, ...]


def read_for(op: Op) -> ForLoop:
    """What the loop's header says. Raises IRError if `op` is not an scf.for."""
    if op.name != "scf.for":
        raise op.error("expected an scf.for")
    types, induction_type = for_types(op.header)
    if not op.regions or not op.regions[0].blocks:
        raise op.error("expected a body")
    args = op.regions[0].entry.args
    if len(op.operands) < 3 or len(args) != len(op.operands) - 2:
        raise op.error("expected bounds, a step, and one body argument more than inits")
    lower, upper, step, *inits = op.operands
    carried = tuple((arg.name, init) for arg, init in zip(args[1:], inits, strict=True))
    return ForLoop(args[0].name, lower, upper, step, induction_type, carried, tuple(types))


@dataclass(frozen=True)
class Carried:
    """SSA names of i32 values carried through a loop: in its body, and behind it; `end` closes the body."""

    inside: Sequence[str]
    behind: Sequence[str]
    end: Op


def carry(loop: Op, inits: Sequence[str]) -> Carried:
    """Carry i32 values, at least one, starting as `inits`, through the loop; `hand_on` must follow."""
    inside, behind = ([loop.module.fresh() for _ in inits] for _ in range(2))
    (_carry_through_while if loop.name == "scf.while" else _carry_through_for)(loop, inits, inside, behind)
    return Carried(inside, behind, edit.ensure_terminator(loop.regions[-1].entry, "scf.yield"))


def hand_on(loop: Op, values: Sequence[str]) -> None:
    """What the body makes of the carried values, for the next iteration: all that it does not yield yet."""
    terminator = edit.ensure_terminator(loop.regions[-1].entry, "scf.yield")
    missing = len(loop.header.result_names) - len(terminator.operands)
    if len(values) != missing:
        raise loop.error(f"expected {missing} values to hand on, found {len(values)}")
    edit.extend_terminator(terminator, values, ["i32"] * missing)


def _carry_through_for(loop: Op, inits: Sequence[str], inside: Sequence[str], behind: Sequence[str]) -> None:
    read_for(loop)
    header, types = loop.header, ["i32"] * len(inits)
    bound = _bound(inside, inits)
    edits = [edit.add_results(header, behind)]
    keyword = header.find("iter_args")
    if keyword is None:
        step = header.use_indices[2]
        text = f" iter_args({', '.join(bound)}) -> ({', '.join(types)}) "
        edits.append(edit.insert_behind(header, step, text))
    else:
        arrow = header.find("->")
        if arrow is None or arrow + 1 not in header.closing or keyword + 1 not in header.closing:
            raise loop.error("expected `->` and the types of iter_args")
        edits.append(edit.add_list_items(header, keyword + 1, bound))
        edits.append(edit.add_types(header, arrow + 1, header.closing[arrow + 1] + 1, types))
    loop.splice(edits)


def _carry_through_while(
    loop: Op, inits: Sequence[str], inside: Sequence[str], behind: Sequence[str]
) -> None:
    """Through the region before the condition, too."""
    if len(loop.regions) != 2:
        raise loop.error("expected an scf.while with two regions")
    header, types = loop.header, ["i32"] * len(inits)
    before = [loop.module.fresh() for _ in inits]
    bound = _bound(before, inits)
    list_start = header.name_index + 1
    if header.pieces[list_start].text == "(":
        bind = edit.add_list_items(header, list_start, bound)
    else:
        bind = edit.insert_behind(header, header.name_index, f" ({', '.join(bound)})")
    loop.splice([edit.add_results(header, behind), bind, *edit.add_signature_types(loop, types, types)])
    for name in inside:
        edit.label_argument(loop.regions[1].entry, name, "i32")
    condition = edit.ensure_terminator(loop.regions[0].entry, "scf.condition")
    edit.extend_terminator(condition, before, types)


def _bound(names: Sequence[str], inits: Sequence[str]) -> list[str]:
    return [f"{name} = {init}" for name, init in zip(names, inits, strict=True)]


def add_if_results(op: Op, values: Sequence[tuple[str, str]]) -> list[str]:
    """Yield more i32 values, at least one, each as the two branches name it; returns the names of the new
    results."""
    if op.name != "scf.if":
        raise op.error("expected an scf.if")
    if len(op.regions) == 1:
        indent = op.lead.rpartition("\n")[2]
        op.insert_region(2, "} else {", Region("", [Block("", [])], f"\n{indent}"))
    results, types = [op.module.fresh() for _ in values], ["i32"] * len(values)
    header = op.header
    body = next(i for i in header.top_level() if header.opens_region(i))
    arrow = header.find("->", 0, body)
    if arrow is None:
        typed = edit.insert_at(header, body, f"-> ({', '.join(types)}) ")
    else:
        typed = edit.add_types(header, arrow + 1, body, types)
    op.splice([edit.add_results(header, results), typed])
    for region, names in zip(op.regions, zip(*values, strict=True), strict=True):
        edit.extend_terminator(edit.ensure_terminator(region.entry, "scf.yield"), names, types)
    return results
