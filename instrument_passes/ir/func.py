"""tt.func and its callers: more arguments, more results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import edit
from profscope.instrument_passes.ir.model import Block, Op

__all__ = [
    "add_arguments",
    "add_block_argument",
    "add_results",
    "predecessors",
]


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


def add_results(
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
