"""What arrives where a wait returns: for passes that record waits, and not the copies themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from instrument_passes.analyses.async_roles import Role, barrier_of, source_of
from instrument_passes.analyses.drains import is_drain
from instrument_passes.analyses.metrics import bytes_of
from instrument_passes.ir import Op, Region

__all__ = ["landing_bytes", "phase_bytes"]

_WAITS: Final = ("ttg.async_wait", "amdg.async_wait")
_GROUP: Final = "ttg.async_commit_group"
_INIT: Final = "ttng.init_barrier"
_EXPECT: Final = "ttng.barrier_expect"
_NUMBER: Final = re.compile(r"ttng\.(?:barrier_expect|init_barrier)\s+%[\w#]+\s*,\s*(\d+)\b")


def landing_bytes(op: Op) -> int:
    """Bytes that one CTA's copies have moved each time this wait returns; 0 for other ops, for a wait behind
    the loop, whose copies others have waited for, and where tokens do not lead to the copies.

    A token that a loop carries is taken for what it starts with: each step's copies are alike. So a loop's
    waits end as many bytes as its copies move, the last of which are switched off. Waits on barriers have no
    tokens: see `phase_bytes`.
    """
    if op.name not in _WAITS or is_drain(op):
        return 0
    return sum(_bytes_behind(op, token) for token in op.operands)


def phase_bytes(roles: Mapping[Op, Role]) -> dict[Op, int]:
    """By wait on barriers the bytes that have arrived each time it returns: those that the barrier was told
    to expect, which is what the hardware counts. roles: of a kernel, of `async_roles.roles`.

    Only of barriers each phase of which ends with one such arrival, always of as many bytes, and whose waits
    find a phase of their own from the first on: then each return of a wait is one arrival, unless a kernel
    waits for a phase once more. What several partitions wait for arrives once, so the waits of the first of
    them have it.
    """
    expected: dict[int, set[int | None]] = {}
    waits: dict[int, list[Op]] = {}
    channel_of: dict[Op, int] = {}
    for op, role in roles.items():
        barriers = barrier_of(op)
        if barriers is not None:
            channel_of[barriers] = role.channel
        if op.name == _EXPECT:
            expected.setdefault(role.channel, set()).add(_number(op))
        elif role.part == "phase" and not role.pending:
            waits.setdefault(role.channel, []).append(op)
    arrivals: dict[int, set[int | None]] = {}
    for op in next(iter(roles)).module.walk() if expected else ():
        root = barrier_of(op) if op.name == _INIT else None
        if root in channel_of:
            arrivals.setdefault(channel_of[root], set()).add(_number(op))
    landed: dict[Op, int] = {}
    for channel, sizes in expected.items():
        size = sizes.pop() if len(sizes) == 1 and arrivals.get(channel) == {1} else None
        mine = waits.get(channel, [])
        landed |= {op: size for op in mine if size and _program(op) is _program(mine[0])}
    return landed


def _number(op: Op) -> int | None:
    """The bytes, or arrivals, that a barrier is to expect; None where they are not written down."""
    match = _NUMBER.search(op.text)
    return None if match is None else int(match[1])


def _program(op: Op) -> Region | None:
    """The function body or partition that the op is in."""
    region = op.parent.parent if op.parent is not None else None
    while region is not None and not region.isolated:
        region = region.parent.parent.parent if region.parent and region.parent.parent else None
    return region


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
