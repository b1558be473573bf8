"""Which registers an instruction reads and writes, and which a basic block needs and leaves."""

from collections.abc import Iterable, Iterator

from profscope.emulator.opcodes import lookup
from profscope.emulator.ptx.syntax import Address, Instruction, Operand, Register, Vector
from profscope.emulator.translation.graph import Block

__all__ = ["CARRY", "find_live", "reads", "sources", "writes"]

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


def find_live(blocks: list[Block]) -> None:
    """Fill in what is live where each block begins and ends."""
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
