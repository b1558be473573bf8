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
from profscope.instrument_passes.ir.signature import for_types, signature_range, type_list

__all__ = [
    "Carried",
    "ForLoop",
    "WhileNames",
    "add_carried",
    "add_if_results",
    "add_iter_args",
    "carry",
    "hand_on",
    "read_for",
    "set_condition_extra",
    "set_for_yield",
    "set_while_yield",
]


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


def add_iter_args(op: Op, inits: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Carry more values, given as (initial value, type), through the loop.

    Returns their names inside the body and after the loop. The loop is incomplete until `set_for_yield` has
    said what each iteration hands on.
    """
    read_for(op)
    if not inits:
        return [], []
    fresh = op.module.fresh
    args = [fresh() for _ in inits]
    results = [fresh() for _ in inits]
    bound = [f"{arg} = {init}" for arg, (init, _) in zip(args, inits, strict=True)]
    types = [kind for _, kind in inits]
    header = op.header
    edits = [edit.add_results(header, results)]
    keyword = header.find("iter_args")
    if keyword is None:
        step = header.use_indices[2]
        text = f" iter_args({', '.join(bound)}) -> ({', '.join(types)}) "
        edits.append(edit.insert_behind(header, step, text))
    else:
        arrow = header.find("->")
        if arrow is None or arrow + 1 not in header.closing or keyword + 1 not in header.closing:
            raise op.error("expected `->` and the types of iter_args")
        edits.append(edit.add_list_items(header, keyword + 1, bound))
        edits.append(edit.add_types(header, arrow + 1, header.closing[arrow + 1] + 1, types))
    op.splice(edits)
    return args, results


def set_for_yield(op: Op, values: Sequence[str]) -> None:
    """Yield `values` for the iter_args that the body does not yield yet, which are the last ones added."""
    types = read_for(op).types
    terminator = edit.ensure_terminator(op.regions[0].entry, "scf.yield")
    missing = types[len(terminator.operands) :]
    if len(values) != len(missing):
        raise op.error(f"expected {len(missing)} values to yield, found {len(values)}")
    edit.extend_terminator(terminator, values, missing)


@dataclass(frozen=True)
class WhileNames:
    """Names of the carried values in the before region, in the after region, and behind the loop."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    results: tuple[str, ...]


def add_carried(op: Op, inits: Sequence[tuple[str, str]]) -> WhileNames:
    """Carry more values, given as (initial value, type), through the before region, the after region and out.

    The loop is incomplete until `set_condition_extra` and `set_while_yield` say what each region hands on.
    """
    if op.name != "scf.while" or len(op.regions) != 2:
        raise op.error("expected an scf.while with two regions")
    if not inits:
        return WhileNames((), (), ())
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
    return WhileNames(before, after_names, results)


def set_condition_extra(op: Op, values: Sequence[str]) -> None:
    """Hand `values` from the before region on, for what its scf.condition does not pass yet."""
    terminator = edit.ensure_terminator(op.regions[0].entry, "scf.condition")
    _extend(op, terminator, values, _types(op)[1][len(terminator.operands) - 1 :])


def set_while_yield(op: Op, values: Sequence[str]) -> None:
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


def _ensure_else(op: Op) -> Region:
    """The else region of an scf.if, added if there is none."""
    if op.name != "scf.if":
        raise op.error("expected an scf.if")
    if len(op.regions) == 1:
        indent = op.lead.rpartition("\n")[2]
        op.insert_region(2, "} else {", Region("", [Block("", [])], f"\n{indent}"))
    return op.regions[1]


def add_if_results(
    op: Op, types: Sequence[str], then_values: Sequence[str], else_values: Sequence[str]
) -> list[str]:
    """Yield one more value of each type from both branches; returns the names of the new results."""
    if not len(types) == len(then_values) == len(else_values):
        raise op.error("expected as many values for each branch as types")
    _ensure_else(op)
    if not types:
        return []
    results = [op.module.fresh() for _ in types]
    header = op.header
    body = next(i for i in header.top_level() if header.opens_region(i))
    arrow = header.find("->", 0, body)
    if arrow is None:
        typed = edit.insert_at(header, body, f"-> ({', '.join(types)}) ")
    else:
        typed = edit.add_types(header, arrow + 1, body, types)
    op.splice([edit.add_results(header, results), typed])
    for region, values in zip(op.regions, (then_values, else_values), strict=True):
        edit.extend_terminator(edit.ensure_terminator(region.entry, "scf.yield"), values, types)
    return results


@dataclass(frozen=True)
class Carried:
    """SSA names of i32 values carried through a loop: in its body, and behind it; `end` closes the body."""

    inside: Sequence[str]
    behind: Sequence[str]
    end: Op


def carry(loop: Op, inits: Sequence[str]) -> Carried:
    """Carry i32 values, starting as `inits`, through the loop; `hand_on` must follow."""
    typed = [(init, "i32") for init in inits]
    if loop.name == "scf.while":
        carried = add_carried(loop, typed)
        set_condition_extra(loop, carried.before)
        inside, behind = carried.after, carried.results
    else:
        names = add_iter_args(loop, typed)
        inside, behind = tuple(names[0]), tuple(names[1])
    return Carried(inside, behind, edit.ensure_terminator(loop.regions[-1].entry, "scf.yield"))


def hand_on(loop: Op, values: Sequence[str]) -> None:
    """What the body makes of the carried values, for the next iteration."""
    set_yield = set_while_yield if loop.name == "scf.while" else set_for_yield
    set_yield(loop, values)
