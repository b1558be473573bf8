"""The control bits of an instruction: which scoreboards it waits for, and which it sets.

From Volta on they are bits 105 to 125 of the 128: 4 for cycles to stall, 1 for yield, 3 for the scoreboard
that is set until the result is written, 3 for that until the operands are read (7: none), and a mask of 6
scoreboards to wait for. Sources: Jia et al., "Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking"
(arXiv:1903.07486, section 2.1); CuAssembler, `CuAsm/common.py`. Hopper and Blackwell have kept them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SCOREBOARDS", "Control", "control_of"]

SCOREBOARDS: Final = 6
_FIRST_BIT: Final = 105
_NONE: Final = 7


@dataclass(frozen=True, slots=True)
class Control:
    """stall: cycles before the next instruction may issue. writes, reads: the scoreboard that is set until
    the result is written, or the operands are read; None without one. waits: the scoreboards waited for."""

    stall: int = 0
    writes: int | None = None
    reads: int | None = None
    waits: tuple[int, ...] = ()

    @property
    def sets(self) -> frozenset[int]:
        """The scoreboards that the instruction sets."""
        return frozenset(board for board in (self.writes, self.reads) if board is not None)


def control_of(encoding: int | None) -> Control:
    """The control bits of a 128-bit encoding; nothing is known of an instruction without one."""
    if encoding is None:
        return Control()
    bits = encoding >> _FIRST_BIT
    writes, reads, mask = (bits >> 5) & 7, (bits >> 8) & 7, bits >> 11
    return Control(
        stall=bits & 15,
        writes=None if writes == _NONE else writes,
        reads=None if reads == _NONE else reads,
        waits=tuple(board for board in range(SCOREBOARDS) if mask >> board & 1),
    )
