"""The ops that experiments are made with, in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profscope.instrument_passes.ir import Op
from profscope.instrument_passes.ir.signature import element_type
from profscope.instrument_passes.ops import info_of

__all__ = ["GROUPS", "SCATTERED", "group_of"]

GROUPS: Final[Mapping[str, str]] = {
    "memory": "all global memory",
    "dots": "all dots",
    "math": "all slow math",
    "exchange": "all exchange between threads",
}
"""By name, what it has: float64 is math; reductions, layout conversions and shared memory are exchange."""

SCATTERED: Final = "all scattered accesses"
"""Of the lines that neighbouring addresses make faster."""

_OF_CLASS: Final[Mapping[str, str]] = {
    "load": "memory", "store": "memory", "atomic": "memory", "async_copy": "memory",
    "mma": "dots",
    "math": "math",
    "reduce": "exchange", "layout": "exchange", "local": "exchange", "barrier": "exchange",
}  # fmt: skip
_PARTS: Final = ("ttg.async_commit_group", "ttng.tc_gen5_commit", "ttng.barrier_expect")
"""Ops that only belong to others."""


def group_of(op: Op) -> str:
    """ "" for an op that no experiment leaves out."""
    info = info_of(op)
    if info is None or op.name in _PARTS:
        return ""
    if info.cls == "elementwise" and any(element_type(each.type) == "f64" for each in op.results):
        return "math"
    return _OF_CLASS.get(info.cls, "")
