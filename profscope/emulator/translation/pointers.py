"""Which pointer parameters an address is computed from, as far as the program tells.

An access through an address that comes from one tensor's pointer must stay in that tensor's memory, also
where another tensor lies next to it. One that comes from none was loaded, or passed as a number.
"""

from profscope.emulator.ptx.syntax import Address, Instruction, Register, Symbol
from profscope.emulator.translation.graph import Graph
from profscope.emulator.translation.liveness import reads, writes

__all__ = ["pointer_sources"]


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
