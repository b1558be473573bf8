"""A kernel's control flow graph, as plain data."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from profscope.emulator.opcodes import lookup
from profscope.emulator.ptx_syntax import Address, Instruction, Operand, Register, Symbol, Vector

__all__ = ["CARRY", "Block", "Graph", "find_live", "pointer_sources", "reached", "reads", "sources", "writes"]


@dataclass
class Block:
    """Instructions that run one after the other; `end` is how it ends: jump, branch, switch, barrier or exit.

    `next` is the block after a jump or barrier, or where a branch goes when its condition is false; `taken`
    is where it goes when it is true; `targets` are where a switch goes. All are positions in `Graph.blocks`.
    `end_instruction` is the branch or barrier itself, if there is one.

    A block that `meets` begins with an access that CTAs meet at (`sync_points`). One that `continues` was cut
    from its only predecessor there; pending results of registers stay pending across the cut.
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


# Which registers an instruction reads and writes, and which a basic block needs and leaves.

CARRY = "%cc"


def _registers(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _registers(operand.items)
        elif isinstance(operand, Address):
            yield from _registers((operand.base,))


def writes(instruction: Instruction) -> list[str]:
    """Names of the registers an instruction sets."""
    row, form = lookup(instruction)
    names = list(_registers(instruction.operands[: row.result_count]))
    return [*names, CARRY] if form.has("cc") else names


def sources(instruction: Instruction) -> list[str]:
    """Names of the registers an instruction computes from, its predicate among them."""
    row, _ = lookup(instruction)
    names = list(_registers(instruction.operands[row.result_count :]))
    if row.name in ("addc", "subc", "madc"):
        names.append(CARRY)
    if instruction.predicate is not None:
        names.append(instruction.predicate[0].name)
    return names


def reads(instruction: Instruction) -> list[str]:
    """Names of the registers whose values an instruction needs, also the old ones of those it may keep."""
    names = sources(instruction)
    return names if instruction.predicate is None else names + writes(instruction)


def reached(names: Iterable[str], steps: Collection[tuple[list[str], list[str]]]) -> set[str]:
    """The names and what they lead to: any of a step's first names leads to all of its second ones."""
    found = set(names)
    size = -1
    while size != len(found):
        size = len(found)
        for first, second in steps:
            if not found.isdisjoint(first):
                found.update(second)
    return found


def find_live(blocks: list[Block]) -> None:
    """Fill in the live registers at the begin and end of each block."""
    uses: list[set[str]] = []
    defs: list[set[str]] = []
    for block in blocks:
        used: set[str] = set()
        defined: set[str] = set()
        for instruction in block.instructions:
            used.update(name for name in reads(instruction) if name not in defined)
            defined.update(writes(instruction))
        end = block.end_instruction
        if end is not None:
            used.update(name for name in reads(end) if name not in defined)
        uses.append(used)
        defs.append(defined)
    live_in = [frozenset[str]() for _ in blocks]
    live_out = [frozenset[str]() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            out = frozenset[str]().union(*(live_in[s] for s in blocks[number].successors()))
            into = frozenset(uses[number] | (out - defs[number]))
            if into != live_in[number] or out != live_out[number]:
                live_in[number], live_out[number] = into, out
                changed = True
    for block, into, out in zip(blocks, live_in, live_out, strict=True):
        block.live_in, block.live_out = into, out


# Which pointer parameters an address is computed from, as far as the program tells.
#
# An access through an address that comes from one tensor's pointer must stay in that tensor's memory, also
# where another tensor lies next to it. One that comes from none was loaded, or passed as a number.


def pointer_sources(graph: Graph) -> dict[int, frozenset[int]]:
    """For each instruction with an address in a register, the pointer parameters that it is computed from."""
    sources: dict[str, frozenset[int]] = {}
    instructions = [i for block in graph.blocks for i in block.instructions]
    wide = {name for name, kind in graph.registers.items() if kind.endswith("64")}
    changed = True
    while changed:
        changed = False
        for instruction in instructions:
            come_from = _sources_of(instruction, graph, sources, wide)
            for name in writes(instruction):
                if name in wide and not come_from <= sources.get(name, frozenset()):
                    sources[name] = sources.get(name, frozenset()) | come_from
                    changed = True
    result: dict[int, frozenset[int]] = {}
    for instruction in instructions:
        for operand in instruction.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                result[id(instruction)] = sources.get(operand.base.name, frozenset())
    return result


def _sources_of(
    instruction: Instruction, graph: Graph, sources: dict[str, frozenset[int]], wide: set[str]
) -> frozenset[int]:
    """The pointer parameters that an instruction's 64-bit result is computed from."""
    if instruction.opcode.startswith("ld"):
        where = instruction.operands[1]
        if (
            instruction.opcode.startswith("ld.param")
            and isinstance(where, Address)
            and isinstance(where.base, Symbol)
        ):
            index = graph.params.index(where.base.name) if where.base.name in graph.params else -1
            if index >= 0 and graph.pointers[index]:
                return frozenset([index])
        return frozenset()
    if instruction.opcode.startswith(("setp", "atom")):
        return frozenset()
    return frozenset().union(*(sources.get(n, frozenset()) for n in reads(instruction) if n in wide))
