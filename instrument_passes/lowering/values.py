"""What a `profscope.values` op becomes: a reduction of the tensor to how many of which values it has.

The reductions are Triton's own, over the CTA (or the partition), so their results are the same in all its
threads, whatever the layout, and each element counts once, also where threads hold copies of it. They are
legal wherever the tensor's op is: both are executed by the same warps together.
"""

from __future__ import annotations

from typing import Final

from profscope.instrument_passes.dialect import PROBED, VALUES, payload, record_id
from profscope.instrument_passes.ir import Module, Op, replace_uses
from profscope.instrument_passes.ir.signature import element_type, rank, with_element, without_last_axis

__all__ = ["expand_values"]

_INFINITY: Final = {"f32": "0x7F800000", "f64": "0x7FF0000000000000"}
_ZERO: Final = {"f32": "0x00000000", "f64": "0x0000000000000000"}
_MINUS_INFINITY: Final = {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}
# Of each type, as f32 (f64: as itself): the least normal number, and the greatest finite one.
_LEAST_NORMAL: Final = {
    "f64": "0x0010000000000000", "f32": "0x00800000", "bf16": "0x00800000", "f16": "0x38800000",
    "f8E5M2": "0x38800000", "f8E4M3FN": "0x3C800000",
}  # fmt: skip
_GREATEST: Final = {
    "f64": "0x7FEFFFFFFFFFFFFF", "f32": "0x7F7FFFFF", "bf16": "0x7F7F0000", "f16": "0x477FE000",
    "f8E5M2": "0x47600000", "f8E4M3FN": "0x43E00000",
}  # fmt: skip
# How two partial results of a column become one.
_COMBINE: Final = dict.fromkeys(("nans", "infs", "denormals", "saturated"), "addi") | {
    "min": "minnumf",
    "max": "maxnumf",
}


def expand_values(module: Module) -> None:
    """Replace every `profscope.values` op of the module by the ops that compute its payloads."""
    for op in tuple(module.walk()):
        if op.name == VALUES:
            if module.integer("ttg.num-ctas", 1) != 1:
                raise op.error("values cannot be counted over the CTAs of a cluster")
            op.insert_before("\n".join(_counting(op, module.fresh("ps_values"))))
            op.erase()


def _counting(op: Op, p: str) -> list[str]:
    """The ops, one a line; `p` begins the names of their results."""
    if not op.operands:
        raise op.error("expected the value to look at")
    kind, mask = op.operand_types[0], op.operands[1:]
    own = element_type(kind)
    if own not in _LEAST_NORMAL:
        what = kind or "a value that nothing defines"
        raise op.error(f"expected floats to look at ({', '.join(_LEAST_NORMAL)}), not {what}")
    lines, wide, x = _widened(p, _settled(op), kind)
    element = element_type(wide)
    flags, counts = with_element(wide, "i1"), with_element(wide, "i32")
    lines += [
        f"{p}_inf = arith.constant {_constant(wide, _INFINITY[element])}",
        f"{p}_low = arith.constant {_constant(wide, _MINUS_INFINITY[element])}",
        f"{p}_zero = arith.constant {_constant(wide, _ZERO[element])}",
        f"{p}_normal = arith.constant {_constant(wide, _LEAST_NORMAL[own])}",
        f"{p}_most = arith.constant {_constant(wide, _GREATEST[own])}",
        f"{p}_abs = math.absf {x} : {wide}",
        f"{p}_is_nans = arith.cmpf uno, {x}, {x} : {wide}",
        f"{p}_is_infs = arith.cmpf oeq, {p}_abs, {p}_inf : {wide}",
        f"{p}_is_tiny = arith.cmpf olt, {p}_abs, {p}_normal : {wide}",
        f"{p}_is_some = arith.cmpf ogt, {p}_abs, {p}_zero : {wide}",
        f"{p}_is_denormals = arith.andi {p}_is_tiny, {p}_is_some : {flags}",
        f"{p}_is_saturated = arith.cmpf oeq, {p}_abs, {p}_most : {wide}",
        f"{p}_is_finite = arith.cmpf olt, {p}_abs, {p}_inf : {wide}",
    ]
    counted = [column for column in PROBED if _COMBINE[column] == "addi"]
    names = {column: f"{p}_is_{column}" for column in (*counted, "finite")}
    if mask:
        lines += [f"{name}_on = arith.andi {name}, {mask[0]} : {flags}" for name in names.values()]
        names = {column: f"{name}_on" for column, name in names.items()}
    lines += [f"{p}_{column} = arith.extui {names[column]} : {flags} to {counts}" for column in counted]
    lines += [
        f"{p}_min = arith.select {names['finite']}, {x}, {p}_inf : {flags}, {wide}",
        f"{p}_max = arith.select {names['finite']}, {x}, {p}_low : {flags}, {wide}",
    ]
    columns = [f"{p}_{column}" for column in PROBED]
    for axis in reversed(range(rank(wide))):
        lines.append(_reduce(f"{p}_over{axis}", columns, wide, axis))
        columns = [f"{p}_over{axis}#{i}" for i in range(len(PROBED))]
        wide = without_last_axis(wide)
    return lines + _payloads(p, dict(zip(PROBED, columns, strict=True)), element, record_id(op))


def _settled(op: Op) -> str:
    """The value once it is there. An asynchronous dot's is only after a wait, which its later uses then get
    the value of: to read the accumulators while the tensor cores write them would be wrong."""
    value = op.resolve(op.operands[0])
    dot = None if value is None else value.owner
    asynchronous = (
        isinstance(dot, Op) and dot.name == "ttng.warp_group_dot" and dot.attributes.get("isAsync") == "true"
    )
    region = None if op.parent is None else op.parent.parent
    if value is None or region is None or not asynchronous:
        return op.operands[0]
    settled = op.module.fresh("ps_settled")
    replace_uses(value.name, settled, region)
    op.insert_before(
        f"{settled} = ttng.warp_group_dot_wait {value.name} {{pendings = 0 : i32}} : {value.type}"
    )
    return settled


def _widened(p: str, value: str, kind: str) -> tuple[list[str], str, str]:
    """Lines that widen the value to f32, unless it is f32 or f64; its type and its name then."""
    element = element_type(kind)
    if element in _INFINITY:
        return [], kind, value
    half, wide = with_element(kind, "f16"), with_element(kind, "f32")
    if not element.startswith("f8"):
        return [f"{p}_wide = arith.extf {value} : {kind} to {wide}"], wide, f"{p}_wide"
    lines = [
        f"{p}_half = tt.fp_to_fp {value} : {kind} -> {half}",
        f"{p}_wide = arith.extf {p}_half : {half} to {wide}",
    ]
    return lines, wide, f"{p}_wide"


def _reduce(out: str, values: list[str], kind: str, axis: int) -> str:
    """One reduction of all columns over the last axis; `{out}#0` and so on are its results."""
    types = [_of_column(kind, column) for column in PROBED]
    results = [without_last_axis(one) for one in types]
    elements = [element_type(one) for one in types]
    left, right = ([f"{out}_{side}{i}" for i in range(len(PROBED))] for side in "ab")
    arguments = ", ".join(f"{n}: {e}" for n, e in zip(left + right, elements * 2, strict=True))
    body = [
        f"  {out}_{column} = arith.{_COMBINE[column]} {left[i]}, {right[i]} : {elements[i]}"
        for i, column in enumerate(PROBED)
    ]
    combined = ", ".join(f"{out}_{column}" for column in PROBED)
    return "\n".join(
        [
            f'{out}:{len(PROBED)} = "tt.reduce"({", ".join(values)}) <{{axis = {axis} : i32}}> ({{',
            f"^bb0({arguments}):",
            *body,
            f"  tt.reduce.return {combined} : {', '.join(elements)}",
            f"}}) : ({', '.join(types)}) -> ({', '.join(results)})",
        ]
    )


def _of_column(kind: str, column: str) -> str:
    return with_element(kind, "i32") if _COMBINE[column] == "addi" else kind


def _payloads(p: str, values: dict[str, str], element: str, span: int) -> list[str]:
    """The results as payloads; the extremes are NaN where nothing was finite."""
    lines = [f"{p}_none = arith.cmpf ogt, {values['min']}, {values['max']} : {element}"]
    for column in ("min", "max"):
        name = values[column]
        if element == "f64":
            lines.append(f"{p}_{column}32 = arith.truncf {name} : f64 to f32")
            name = f"{p}_{column}32"
        lines += [
            f"{p}_{column}_nan = arith.constant 0x7FC00000 : f32",
            f"{p}_{column}_or = arith.select {p}_none, {p}_{column}_nan, {name} : f32",
        ]
        values[column] = f"{p}_{column}_or"
    kinds = {"addi": "i32"}
    return lines + [
        payload(span, column, values[column], kinds.get(_COMBINE[column], "f32")) for column in PROBED
    ]


def _constant(kind: str, literal: str) -> str:
    return f"dense<{literal}> : {kind}" if kind.startswith("tensor<") else f"{literal} : {kind}"
