"""tt.func and its callers: more arguments, more results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instrument_passes.ir import edit
from instrument_passes.ir.model import Op
from instrument_passes.ir.signature import type_list

__all__ = ["add_arguments", "add_results", "calls", "result_types", "returns"]


def calls(func: Op) -> list[Op]:
    """Every tt.call of the function in its module."""
    _check(func)
    return [op for op in func.module.walk() if op.name == "tt.call" and op.symbol == func.symbol]


def returns(func: Op) -> list[Op]:
    """Every tt.return of the function."""
    _check(func)
    return [op for op in func.walk() if op.name == "tt.return"]


def result_types(func: Op) -> list[str]:
    """Types that the function returns."""
    _check(func)
    place = _results(func)
    return [] if place is None else type_list(func.header, *place)


def add_arguments(
    func: Op, arguments: Sequence[tuple[str, str]], operands: Mapping[Op, Sequence[str]]
) -> None:
    """Add arguments, given as (name, type); `operands` has every call of the function with what it passes."""
    _check(func)
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
    _check(func)
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


def _check(func: Op) -> None:
    if func.name != "tt.func" or not func.regions:
        raise func.error("expected a tt.func with a body")


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
