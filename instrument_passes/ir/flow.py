"""Reads control flow and calls, and carries more values through them: loops, branches, functions, partitions.

`carry` and `hand_on` take loops of either kind. An scf.while has two regions:

%r = scf.while (%before = %init) : (T) -> T {
  scf.condition(%go_on) %value : T
} do {
^bb0(%after: T):
  scf.yield %next : T
}

A ttg.warp_specialize has a default region, and partitions of further warps, which see captured values only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import edit
from profscope.instrument_passes.ir.model import Block, Op, Region, Value
from profscope.instrument_passes.ir.signature import for_types

__all__ = [
    "Carried",
    "ForLoop",
    "Partition",
    "add_arguments",
    "add_block_argument",
    "add_capture",
    "add_if_results",
    "add_returns",
    "add_yields",
    "carry",
    "hand_on",
    "partitions",
    "predecessors",
    "read_for",
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
    """The parts of a loop's header. Raises IRError if `op` is not an scf.for."""
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
    """The carried values that the body yields for the next iteration: all that it does not yield yet."""
    terminator = edit.ensure_terminator(loop.regions[-1].entry, "scf.yield")
    is_while = loop.name == "scf.while"  # which yields what its condition reads
    wanted = len(loop.regions[0].entry.args if is_while else loop.header.result_names)
    missing = wanted - len(terminator.operands)
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


# tt.func and its callers, and blocks that branches lead to.


def add_arguments(
    func: Op, arguments: Sequence[tuple[str, str]], operands: Mapping[Op, Sequence[str]]
) -> None:
    """Add arguments, given as (name, type); `operands` has every call of the function with what it passes."""
    if func.name != "tt.func" or not func.regions:
        raise func.error("expected a tt.func with a body")
    if not arguments:
        return
    typed = [f"{name}: {kind}" for name, kind in arguments]
    kinds = [kind for _, kind in arguments]
    func.splice([edit.add_list_items(func.header, _parentheses(func), typed)])
    for call, names in operands.items():
        more = edit.add_list_items(call.header, _parentheses(call), names)
        call.splice([more, *edit.add_signature_types(call, kinds, [])])


def add_returns(
    func: Op, kinds: Sequence[str], values: Mapping[Op, Sequence[str]], callers: Sequence[Op]
) -> list[list[str]]:
    """Return more values; `values` has every tt.return with what it returns, `callers` are all calls.

    Returns the names of the new results of each call.
    """
    if not kinds:
        return [[] for _ in callers]
    header = func.header
    place = _results(func)
    if place is None:
        listed = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        func.splice([edit.insert_behind(header, header.closing[_parentheses(func)], f" -> {listed}")])
    else:
        func.splice([edit.add_types(header, *place, kinds)])
    for op, names in values.items():
        edit.extend_terminator(op, names, kinds)
    added = []
    for call in callers:
        added.append([call.module.fresh() for _ in kinds])
        call.splice([edit.add_results(call.header, added[-1]), *edit.add_signature_types(call, [], kinds)])
    return added


def _parentheses(op: Op) -> int:
    """Index of the parenthesis that opens the argument list."""
    opening = op.header.find("(", op.header.name_index)
    if opening is None:
        raise op.error("expected an argument list in parentheses")
    return opening


def _results(func: Op) -> tuple[int, int] | None:
    """Index range of the result types, None if nothing is returned."""
    header = func.header
    arrow = header.closing[_parentheses(func)] + 1
    if arrow >= len(header.pieces) or header.pieces[arrow].text != "->":
        return None
    stops = (
        i
        for i in header.top_level(arrow + 1, header.end)
        if header.pieces[i].text == "attributes" or header.opens_region(i)
    )
    return arrow + 1, next(stops, header.end)


def predecessors(block: Block) -> list[Op]:
    """The branches that lead to the block, each once."""
    region, label = block.parent, block.label
    if region is None or label is None:
        return []
    ends = (other.ops[-1] for other in region.blocks if other.ops)
    return [op for op in ends if any(target == label for target, _ in op.successors)]


def add_block_argument(block: Block, kind: str, value_for: Callable[[Op], str]) -> str:
    """Add an argument of type `kind`; `value_for(branch)` names what each branch to the block passes.

    Returns the argument's name. A branch that leads to the block twice passes the value twice. Raises IRError
    for a block without a label: nothing branches to it, its arguments are those of the op around it.
    """
    if block.label is None:
        raise IRError("expected a block with a label", block.module.filename)
    branches = [(op, value_for(op)) for op in predecessors(block)]
    name = block.module.fresh()
    for op, value in branches:
        op.splice(_passed(op, block.label, value, kind))
    edit.label_argument(block, name, kind)
    return name


def _passed(branch: Op, target: str, value: str, kind: str) -> list[edit.Edit]:
    """Pass one more value to each mention of `target`: `^bb1` or `^bb1(%a : T)`."""
    header = branch.header
    edits = []
    for label, start, end in header.successor_ranges:
        if header.pieces[label].text != target:
            continue
        colon = header.find(":", start, end)
        if colon is None:
            edits.append(edit.insert_behind(header, label, f"({value} : {kind})"))
        else:
            edits.append(edit.insert_behind(header, colon - 1, f", {value}"))
            edits.append(edit.insert_behind(header, end - 1, f", {kind}"))
    return edits


# ttg.warp_specialize.


@dataclass(frozen=True)
class Partition:
    """`args` are the captured operands as the partition sees them, in the order of the operands."""

    index: int
    region: Region
    num_warps: int
    args: tuple[Value, ...]


def partitions(op: Op) -> list[Partition]:
    """The isolated partitions, in order."""
    _check_specialised(op)
    header = op.header
    names = _partition_names(op)
    if len(names) != len(op.regions) - 1:
        raise op.error(f"expected a region for each of {len(names)} partitions, and the default region")
    listed = []
    for index, (region, name) in enumerate(zip(op.regions[1:], names, strict=True)):
        end = len(header.pieces)
        body = next((i for i in range(name, end) if header.pieces[i].kind == "region"), end)
        warps = header.find("num_warps", name, body)
        number = "" if warps is None else "".join(p.text for p in header.pieces[warps + 2 : warps + 3])
        if not number.isdecimal() or not region.blocks:
            raise op.error(f"expected num_warps(...) and a body for partition {index}")
        listed.append(Partition(index, region, int(number), tuple(region.entry.args)))
    return listed


def add_capture(op: Op, operand: str, kind: str) -> list[str]:
    """Hand `operand`, of type `kind`, to every partition; returns its name in each."""
    _check_specialised(op)
    header = op.header
    names = [op.module.fresh() for _ in op.regions[1:]]
    edits = [edit.add_list_items(header, header.name_index + 1, [operand])]
    for start, name in zip(_partition_names(op), names, strict=True):
        edits.append(edit.add_list_items(header, start + 1, [f"{name}: {kind}"]))
    op.splice(edits + edit.add_signature_types(op, [kind], []))
    return names


def add_yields(op: Op, kinds: Sequence[str], values: Sequence[str]) -> list[str]:
    """Yield more values from the default region; returns the names of the new results."""
    _check_specialised(op)
    names = [op.module.fresh() for _ in kinds]
    op.splice([edit.add_results(op.header, names), *edit.add_signature_types(op, [], kinds)])
    edit.extend_terminator(edit.ensure_terminator(op.regions[0].entry, "ttg.warp_yield"), values, kinds)
    return names


def _check_specialised(op: Op) -> None:
    if op.name != "ttg.warp_specialize":
        raise op.error("expected a ttg.warp_specialize")


def _partition_names(op: Op) -> list[int]:
    header = op.header
    return [i for i in header.top_level() if header.pieces[i].text.startswith("partition")]
