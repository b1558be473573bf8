"""What a block does to time, step by step: the instructions that it issues, and where clocks are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from profscope.emulator.costs import Cost, Stalls, Use
from profscope.emulator.opcodes.table import Form
from profscope.emulator.translation.graph import Block

__all__ = ["FENCE", "BlockSteps", "Issue", "Tick", "Touches", "touches"]


class Touches(NamedTuple):
    """The memories that an instruction reads and writes, by state space. is_fence: no other instruction may
    be issued on its other side."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    is_fence: bool = False

    @property
    def any(self) -> bool:
        return bool(self.read or self.written)


_NOTHING: Final = Touches()
FENCE: Final = Touches(is_fence=True)
_GLOBAL, _SHARED, _LOCAL = (frozenset([space]) for space in ("global", "shared", "local"))
_EVERYWHERE: Final = _GLOBAL | _SHARED | _LOCAL
_SPACES: Final = {
    "global": _GLOBAL, "shared": _SHARED, "local": _LOCAL, "param": frozenset[str](),
    "const": frozenset[str](), "": _EVERYWHERE,
}  # fmt: skip
_ORDERED: Final = ("volatile", "acquire", "release", "acq_rel", "mmio")


def touches(form: Form, cost: Cost) -> Touches:
    """What an instruction as written touches of memory."""
    if cost in (Cost.WAIT, Cost.CONTROL, Cost.CALL):
        return FENCE
    where = _SPACES[form.pick("global", "shared", "local", "param", "const")]
    if form.name in ("ld", "ldu", "st") and form.pick(*_ORDERED):
        return Touches(_EVERYWHERE, _EVERYWHERE)
    match form.name:
        case "ld" | "ldu":
            return Touches(read=where)
        case "ldmatrix":
            return Touches(read=_SHARED)
        case "st":
            return Touches(written=where)
        case "atom" | "red":
            return Touches(_EVERYWHERE, _EVERYWHERE)
        case "cp.async":
            return Touches(read=_GLOBAL, written=_SHARED)
    return _NOTHING


@dataclass(frozen=True, eq=False)
class Issue:
    """An instruction. number: among those that are counted, -1 if it only serves records. unit: of those that
    issue in the order of the PTX, "" for others. clocks: numbers of the times at which it reads a clock."""

    number: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    issue: int
    latency: int
    use: Use
    stalls: Stalls
    touches: Touches
    unit: str
    clocks: list[int] = field(default_factory=list)

    @property
    def is_fence(self) -> bool:
        """Whether nothing may be issued on its other side: so it is with clocks that the kernel reads."""
        return self.touches.is_fence or (self.number >= 0 and bool(self.clocks))

    @property
    def is_load(self) -> bool:
        return bool(self.touches.read and self.writes) and not self.touches.written

    @property
    def is_mark(self) -> bool:
        """Whether spans are about it: accesses to memory, tensor cores, exchanges between lanes."""
        return self.touches.any or bool(self.unit)


@dataclass(frozen=True, eq=False)
class Tick:
    """Clocks are brought up to date, at the time of this number. needed: registers that must be there."""

    time: int
    needed: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockSteps:
    """`predicate` is that of the first instruction, as in `SyncPoint`. One that `is_cut` is followed by a
    block that goes on in the middle of things."""

    block: Block
    steps: Sequence[Issue | Tick]
    predicate: tuple[int, bool] | None
    is_cut: bool
