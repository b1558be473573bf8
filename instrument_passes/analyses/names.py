"""What spans are called, after the ops that they are around."""

from __future__ import annotations

from instrument_passes.analyses.drains import is_drain
from instrument_passes.analyses.opclasses import info_of
from instrument_passes.analyses.places import Places, variable_of
from instrument_passes.functions import function_name
from instrument_passes.ir import Op

__all__ = ["call_name", "op_name"]


def op_name(op: Op, places: Places) -> str:
    """What is done and to which variable of the source: "load x"; a call's is `call_name`,
    and a wait behind a pipelined loop drains it."""
    if op.name == "tt.call":
        return call_name(op, places)
    info = info_of(op)
    if info is not None and is_drain(op):
        return f"{info.label} (drain)"
    return f"{op.name if info is None else info.label} {variable_of(op.loc)}".rstrip()


def call_name(call: Op, places: Places) -> str:
    """The function's name in the source and the line: "call helper L40"."""
    return f"call {function_name(call.symbol or '')}{places.line_label(call)}"
