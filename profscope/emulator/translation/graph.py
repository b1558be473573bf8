"""A kernel's control flow graph, as plain data."""

from dataclasses import dataclass, field

from profscope.emulator.ptx.syntax import Instruction

__all__ = ["Block", "Graph"]


@dataclass
class Block:
    """Instructions that run one after the other; `end` is how it ends: jump, branch, switch, barrier or exit.

    `next` is the block after a jump or barrier, or where a branch goes when its condition is false; `taken`
    is where it goes when it is true; `targets` are where a switch goes. All are positions in `Graph.blocks`.
    `end_instruction` is the branch or barrier itself, if there is one.

    A block that `meets` begins with an access that CTAs meet at (`sync_points.py`). One that `continues` was
    cut from its only predecessor there; what is on its way to registers is on its way across the cut.
    """

    instructions: list[Instruction] = field(default_factory=list)
    end: str = "exit"
    end_instruction: Instruction | None = None
    next: int = -1
    taken: int = -1
    targets: tuple[int, ...] = ()
    meets: bool = False
    continues: bool = False
    live_in: frozenset[str] = frozenset()
    live_out: frozenset[str] = frozenset()

    def successors(self) -> list[int]:
        return [s for s in (self.next, self.taken, *self.targets) if s >= 0]


@dataclass
class Graph:
    """`registers` maps names to PTX types; `locals` gives each local variable its offset in local memory."""

    name: str
    blocks: list[Block]
    registers: dict[str, str]
    params: list[str]
    pointers: list[bool]
    locals: dict[str, int]
    local_bytes: int
    threads: int

    @property
    def is_ordered(self) -> bool:
        """Whether CTAs meet somewhere."""
        return any(block.meets for block in self.blocks)
