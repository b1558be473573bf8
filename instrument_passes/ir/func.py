"""tt.func and its callers: one more argument, one more result."""

from __future__ import annotations

from collections.abc import Callable

from instrument_passes.ir import edit
from instrument_passes.ir.model import Op
from instrument_passes.ir.signature import type_list

__all__ = ["add_argument", "add_result", "calls", "result_types", "returns"]


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


def add_argument(func: Op, kind: str, operand_for: Callable[[Op], str]) -> str:
    """Add an argument of type `kind`; `operand_for(call)` names the value each caller passes.

    Returns the argument's name inside the function.
    """
    _check(func)
    name = func.module.fresh()
    callers = [(call, operand_for(call)) for call in calls(func)]
    header = func.header
    func.splice([edit.add_list_items(header, _parentheses(func), [f"{name}: {kind}"])])
    for call, operand in callers:
        operands = edit.add_list_items(call.header, _parentheses(call), [operand])
        call.splice([operands, *edit.add_signature_types(call, [kind], [])])
    return name


def add_result(func: Op, kind: str, value_for: Callable[[Op], str]) -> list[tuple[Op, str]]:
    """Return one more value of type `kind`; `value_for(tt.return)` names it at each return.

    Returns every call with the name of its new result.
    """
    _check(func)
    header = func.header
    place = _results(func)
    if place is None:
        func.splice([edit.insert_behind(header, header.closing[_parentheses(func)], f" -> {kind}")])
    else:
        func.splice([edit.add_types(header, *place, [kind])])
    for op in returns(func):
        edit.extend_terminator(op, [value_for(op)], [kind])
    found = []
    for call in calls(func):
        name = call.module.fresh()
        call.splice([edit.add_results(call.header, [name]), *edit.add_signature_types(call, [], [kind])])
        found.append((call, name))
    return found


def _check(func: Op) -> None:
    if func.name != "tt.func" or not func.regions:
        raise func.error("expected a tt.func with a body")


def _parentheses(op: Op) -> int:
    """Index of the parenthesis that opens the argument list."""
    found = op.header.find("(", op.header.name_index)
    if found is None:
        raise op.error("expected an argument list in parentheses")
    return found


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
