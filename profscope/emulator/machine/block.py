"""A basic block as the machine runs it."""

from collections.abc import Callable
from dataclasses import dataclass

from profscope.emulator.arrays import Array
from profscope.emulator.ptx.syntax import Instruction

__all__ = ["Meeting", "Site", "TranslatedBlock"]


@dataclass(frozen=True)
class Site:
    """An instruction at run time: what errors name, and the pointer parameters its address comes from.

    `counted` is its number among those that are counted, -1 if it is not.
    """

    instruction: Instruction
    pointers: frozenset[int] = frozenset()
    counted: int = -1


@dataclass(frozen=True)
class Meeting:
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
    meeting: Meeting | None
