"""Trip counts that can be read off the module."""

from __future__ import annotations

import re

from instrument_passes.ir import Op

__all__ = ["static_trips"]

_FOR = re.compile(
    r"scf\.for\s+(?:unsigned\s+)?%[\w$.-]+\s*=\s*(%[\w$.#-]+)\s+to\s+(%[\w$.#-]+)\s+step\s+(%[\w$.#-]+)"
)
_CONSTANT = re.compile(r"arith\.constant\s+(-?\d+)\s*:\s*(?:i\d+|index)")


def static_trips(loop: Op) -> int | None:
    """How often a scf.for with constant bounds iterates; None for any other loop."""
    match = _FOR.search(loop.first_line)
    if match is None:
        return None
    bounds = [_constant(loop, name) for name in match.groups()]
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
