"""scf.for: read a loop, and carry more values through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instrument_passes.ir import edit
from instrument_passes.ir.model import Op
from instrument_passes.ir.signature import for_types

__all__ = ["ForLoop", "add_iter_args", "read", "set_yield_extra"]


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


def read(op: Op) -> ForLoop:
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

    Returns their names inside the body and after the loop. The loop is incomplete until `set_yield_extra` has
    said what each iteration hands on.
    """
    read(op)
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


def set_yield_extra(op: Op, values: Sequence[str]) -> None:
    """Yield `values` for the iter_args that the body does not yield yet, which are the last ones added."""
    types = read(op).types
    terminator = edit.ensure_terminator(op.regions[0].entry, "scf.yield")
    missing = types[len(terminator.operands) :]
    if len(values) != len(missing):
        raise op.error(f"expected {len(missing)} values to yield, found {len(values)}")
    edit.extend_terminator(terminator, values, missing)
