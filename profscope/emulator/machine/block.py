"""A basic block as the machine runs it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from profscope.emulator.arrays import Array
from profscope.emulator.ptx_syntax import Instruction

__all__ = ["Schedule", "Site", "SyncPoint", "TranslatedBlock", "Wait"]


@dataclass(frozen=True)
class Site:
    """An instruction at run time: what errors name, and the pointer parameters its address comes from.

    `counted` is its number among those that are counted, -1 if it is not. It is issued in `issue` cycles.
    """

    instruction: Instruction
    pointers: frozenset[int] = frozenset()
    counted: int = -1
    issue: int = 1


@dataclass(frozen=True)
class SyncPoint:
    """A block's first instruction is one that CTAs meet at. Cycles count from the block's begin.

    `issue` is when it is issued; a thread meets others again `apart` cycles later at the earliest.
    `predicate` is the register that switches it off, and whether the register is negated.
    """

    issue: int
    apart: int
    predicate: tuple[int, bool] | None


@dataclass(frozen=True)
class TranslatedBlock:
    """`run(batch, registers, mask)` returns the branch condition, or None.

    `end` says how it ends: jump, branch, switch, barrier or exit. `next` is the block after a jump or
    barrier, or where a branch goes when its condition is false; `taken` is where it goes when it is true.
    A switch goes to the one of `targets` that its "condition" counts, or to `next` where that is -1.
    """

    run: Callable[..., Array | None]
    end: str
    next: int
    taken: int
    targets: tuple[int, ...]
    site: Site | None
    barrier: tuple[int, int]  # id and thread count (0: all of the CTA)
    instructions: int


class Wait(NamedTuple):
    """Cycles that a warp spends at an instruction each time that it runs a block. number: of the instruction
    among those that are counted; blamed: of the one that is the cause; stall: "selected" if it issues."""

    block: int
    number: int
    stall: str
    blamed: int
    cycles: int


@dataclass(frozen=True, eq=False)
class Schedule:
    """A kernel's blocks in cycles, with `residents` warps on each SM.

    `times` are the cycles at which clocks are read and brought up to date, by number, each since the last
    time that clocks were brought up to date: as they are, and without the instructions of records.
    `sync_points` are those of blocks, None if CTAs do not meet. `waits` are those without records.
    """

    residents: int
    times: tuple[tuple[int, int], ...]
    sync_points: tuple[SyncPoint | None, ...]
    waits: tuple[Wait, ...]
