"""What instructions wait for that wait for asynchronous work by its count.

LDGSTS ...; LDGSTS ...; LDGDEPBAR        a group of copies is closed
DEPBAR.LE SB0, 0x1                       waits until at most one group is under way
WARPGROUP.DEPBAR.LE gsb0, 0x1            the same for groups of wgmma, closed by an operand gsb0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from instrument_passes.sass.control import Control
from instrument_passes.sass.flow import Flow
from instrument_passes.sass.listing import Instruction

__all__ = ["awaited_groups", "is_counted_wait"]

_BOARD: Final = re.compile(r"SB([0-5])")
# How many more closed groups a walk looks at behind those that may stay under way: older ones are long done.
_FURTHER: Final = 64
# What closes groups of asynchronous work -> the work.
_MEMBERS: Final = {
    "LDGDEPBAR": frozenset({"LDGSTS"}),
    "UTMACMDFLUSH": frozenset({"UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"}),
}
_WARP_GROUP: Final = re.compile(r"[HIQB]GMMA$")


class _Walk(NamedTuple):
    """Where a walk back stands: groups closed so far, how many can matter, and the work of the newest."""

    at: int
    closed: int
    limit: int
    members: frozenset[str]


def is_counted_wait(instruction: Instruction) -> bool:
    """Whether an instruction waits until at most so many groups are under way."""
    return instruction.name == "DEPBAR" or instruction.opcode.startswith("WARPGROUP.DEPBAR")


def awaited_groups(
    at: int, instructions: Sequence[Instruction], controls: Sequence[Control], before: Flow
) -> set[int]:
    """The asynchronous work that the counted wait at `at` waits for; nothing where its operands are not read.

    Goes back over all paths and counts the groups closed on the way: the newest may stay under way. An
    earlier wait of the same kind bounds what can still be.
    """
    kept = _kept(instructions[at])
    if kept is None:
        return set()
    closes = _closing(instructions[at], controls)
    awaited: set[int] = set()
    start = _Walk(at, 0, kept + _FURTHER, frozenset())
    seen, waiting = {start}, [start]
    while waiting:
        walk = waiting.pop()
        for earlier in before[walk.at]:
            instruction = instructions[earlier]
            closed, limit, members = walk.closed, walk.limit, walk.members
            if is_counted_wait(instruction) and instruction.operands[:1] == instructions[at].operands[:1]:
                limit = min(limit, closed + (_kept(instruction) or 0))
            is_closing = closes(earlier, instruction)
            if is_closing:
                closed, members = closed + 1, _members(instruction)
            if closed > limit:
                continue
            is_work = instruction.name in members or (is_closing and instruction.name not in _MEMBERS)
            if closed > kept and is_work:
                awaited.add(earlier)
            step = _Walk(earlier, closed, limit, members)
            if step not in seen:
                seen.add(step)
                waiting.append(step)
    return awaited


def _kept(wait: Instruction) -> int | None:
    """How many groups may stay under way."""
    last = wait.operands[-1] if len(wait.operands) > 1 else ""
    return int(last, 16) if re.fullmatch(r"0x[0-9a-f]+", last) else None


def _closing(wait: Instruction, controls: Sequence[Control]) -> Callable[[int, Instruction], bool]:
    """Which instructions close a group that the wait counts."""
    if wait.name == "WARPGROUP":
        return lambda at, instruction: (
            wait.operands[0] in instruction.operands and _is_warp_group_mma(instruction)
        )
    board = _BOARD.fullmatch(wait.operands[0])
    number = int(board[1]) if board else -1
    return lambda at, instruction: number in controls[at].sets


def _members(closing: Instruction) -> frozenset[str]:
    if _is_warp_group_mma(closing):
        return frozenset({closing.name})
    return _MEMBERS.get(closing.name, frozenset())


def _is_warp_group_mma(instruction: Instruction) -> bool:
    return _WARP_GROUP.match(instruction.name) is not None
