"""What arrives where a wait returns: for passes that record waits, and not the copies themselves."""

from __future__ import annotations

from typing import Final

from instrument_passes.analyses.async_roles import source_of
from instrument_passes.analyses.drains import is_drain
from instrument_passes.analyses.metrics import bytes_of
from instrument_passes.ir import Op

__all__ = ["landing_bytes"]

_WAITS: Final = ("ttg.async_wait", "amdg.async_wait")
_GROUP: Final = "ttg.async_commit_group"


def landing_bytes(op: Op) -> int:
    """Bytes that one CTA's copies have moved each time this wait returns; 0 for other ops, for a wait behind
    the loop, whose copies others have waited for, and where tokens do not lead to the copies.

    A token that a loop carries is taken for what it starts with: each step's copies are alike. So a loop's
    waits end as many bytes as its copies move, the last of which are switched off.
    """
    if op.name not in _WAITS or is_drain(op):
        return 0
    return sum(_bytes_behind(op, token) for token in op.operands)


def _bytes_behind(user: Op, token: str) -> int:
    """Of the copies, alone or in groups, that a token stands for."""
    value = user.resolve(token)
    for _ in range(50):  # loops in loops
        source = None if value is None else source_of(value)
        if source is None or isinstance(source, Op):
            break
        value = source
    else:
        return 0
    if source is None:
        return 0
    if source.name == _GROUP:
        return sum(_bytes_behind(source, copy) for copy in source.operands)
    return bytes_of(source)
