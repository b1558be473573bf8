"""Small rewrites of an op's own text that the editors of single ops are made of.

Each returns edits for `Op.splice`: (part, start, end, new text).
"""

from __future__ import annotations

from collections.abc import Sequence

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir.header import Header
from profscope.instrument_passes.ir.model import Block, Op
from profscope.instrument_passes.ir.signature import signature_range, type_list

__all__ = [
    "Edit",
    "add_list_items",
    "add_results",
    "add_signature_types",
    "add_types",
    "ensure_terminator",
    "extend_terminator",
    "insert_at",
    "insert_behind",
    "label_argument",
]

Edit = tuple[int, int, int, str]


def insert_at(header: Header, index: int, text: str) -> Edit:
    """`text` in front of piece number `index`."""
    piece = header.pieces[index]
    return (piece.part, piece.start, piece.start, text)


def insert_behind(header: Header, index: int, text: str) -> Edit:
    """`text` right behind piece number `index`."""
    piece = header.pieces[index]
    return (piece.part, piece.end, piece.end, text)


def add_results(header: Header, names: Sequence[str]) -> Edit:
    """More results: `%5 = op` becomes `%5, %new = op`, so that no use of %5 changes."""
    more = ", ".join(names)
    if not header.result_groups:
        return insert_at(header, header.name_index, f"{more} = ")
    equals = header.name_index - 1
    return insert_behind(header, equals - 1, f", {more}")


def add_list_items(header: Header, bracket: int, items: Sequence[str]) -> Edit:
    """More items at the end of the comma-separated list in the brackets opened by piece `bracket`."""
    close = header.closing.get(bracket)
    if close is None:
        raise IRError(f"expected a list in brackets in {str(header.parts[0]).strip()!r}")
    text = ", ".join(items)
    return insert_behind(header, close - 1, text if close == bracket + 1 else f", {text}")


def add_types(header: Header, start: int, end: int, types: Sequence[str]) -> Edit:
    """More types in [start, end), which holds one type or a list in parentheses."""
    first, last = header.pieces[start], header.pieces[end - 1]
    listed = ", ".join([*type_list(header, start, end), *types])
    return (first.part, first.start, last.end, f"({listed})")


def add_signature_types(op: Op, inputs: Sequence[str], results: Sequence[str]) -> list[Edit]:
    """More types in `: (inputs) -> results`."""
    header = op.header
    start, end = signature_range(header)
    arrow = header.find("->", start, end)
    if arrow is None or arrow == start or arrow + 1 == end:
        raise op.error("expected `: (types) -> types`")
    edits = [add_types(header, start, arrow, inputs)] if inputs else []
    return edits + ([add_types(header, arrow + 1, end, results)] if results else [])


def ensure_terminator(block: Block, name: str) -> Op:
    """The block's terminator; `name` without operands is added where the printed form leaves it out."""
    if block.terminator is not None:
        return block.terminator
    return block.append_before_terminator(name)[0]


def extend_terminator(op: Op, values: Sequence[str], types: Sequence[str]) -> None:
    """More operands, with their types, for an op printed `name ... %a, %b : T, U`."""
    if not values:
        return
    header = op.header
    colon = next((i for i in header.top_level(0, header.end) if header.pieces[i].text == ":"), None)
    last = header.end - 1
    if colon is None:
        text = f" {', '.join(values)} : {', '.join(types)}"
        op.splice([insert_behind(header, last, text)])
        return
    op.splice(
        [
            insert_behind(header, colon - 1, f", {', '.join(values)}"),
            insert_behind(header, last, f", {', '.join(types)}"),
        ]
    )


def label_argument(block: Block, name: str, kind: str) -> None:
    """One more argument in the block's label line; an entry block printed without a label gets one."""
    argument = f"{name}: {kind}"
    if not block.header:
        parent = block.parent_op
        indent = "" if parent is None else parent.lead.rpartition("\n")[2]
        block.set_header(f"\n{indent}^bb0({argument}):")
        return
    header = Header([block.header])
    if header.pieces[1].text == "(":
        _, start, end, text = add_list_items(header, 1, [argument])
    else:
        _, start, end, text = insert_behind(header, 0, f"({argument})")
    block.set_header(block.header[:start] + text + block.header[end:])
