"""Trip counts that can be read off the module."""

from __future__ import annotations

import re

from instrument_passes.ir import Op, for_op

__all__ = ["static_trips"]

_CONSTANT = re.compile(r"arith\.constant\s+(-?\d+)\s*:\s*(?:i\d+|index)")


def static_trips(loop: Op) -> int | None:
    """How often a scf.for with constant bounds iterates; None for any other loop."""
    if loop.name != "scf.for":
        return None
    header = for_op.read(loop)
    bounds = [_constant(loop, name) for name in (header.lower, header.upper, header.step)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    return max(0, -(-(upper - lower) // step)) if step > 0 else None


def _constant(op: Op, name: str) -> int | None:
    value = op.resolve(name)
    if value is None or not isinstance(value.owner, Op):
        return None
    match = _CONSTANT.search(value.owner.first_line)
    return int(match[1]) if match else None
