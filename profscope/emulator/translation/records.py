"""Which instructions of a recorded kernel serve its records alone.

A record is a store to the profile scratch, the kernel's last pointer. Without these stores, a compiler would
remove all that only they need: clock reads, addresses, branches around them. That is what is found here, as
aggressive dead code elimination finds it (Cytron et al., 1991).
"""

import re
from collections.abc import Iterable

from profscope.emulator.ptx.syntax import Address, Instruction, Symbol
from profscope.emulator.translation.graph import Graph, reads, sources, writes

__all__ = ["record_instructions"]

_EFFECTS = re.compile(
    r"(?:st|red|atom|ld(?!\.param)|ldu|bar|barrier|cp|call|membar|fence|prefetchu?|griddepcontrol|brkpt|trap)\b"
)


def record_instructions(graph: Graph, pointers: dict[int, frozenset[int]]) -> frozenset[int]:
    """The ids of the instructions that a bare kernel would not have. pointers: of `pointer_sources`."""
    scratch = frozenset([len(graph.params) - 1])
    is_of_records = {key for key, come_from in pointers.items() if come_from == scratch}
    every = [
        (number, instruction)
        for number, block in enumerate(graph.blocks)
        for instruction in (*block.instructions, *([block.end_instruction] if block.end_instruction else []))
    ]
    if not is_of_records:
        return frozenset()
    block_of = {id(instruction): number for number, instruction in every}
    writers: dict[str, list[Instruction]] = {}
    for _, instruction in every:
        for name in writes(instruction):
            writers.setdefault(name, []).append(instruction)
    chooses = _choices(graph, [instruction for _, instruction in every], is_of_records)
    controllers = _controllers(graph)
    needed: set[int] = set()
    queue = [i for _, i in every if _has_effect(i) and id(i) not in is_of_records]
    while queue:
        instruction = queue.pop()
        if id(instruction) in needed:
            continue
        needed.add(id(instruction))
        queue += [writer for name in reads(instruction) for writer in writers.get(name, ())]
        for number in controllers[block_of[id(instruction)]]:
            branch = graph.blocks[number].end_instruction
            if branch is not None and id(branch) not in chooses:
                queue.append(branch)
    busy = {block_of[key] for key in needed}
    return frozenset(
        id(instruction)
        for number, instruction in every
        if id(instruction) not in needed
        and not (_is_jump(instruction) and number in busy)
        and instruction.opcode not in ("ret", "exit")
    )


def _has_effect(instruction: Instruction) -> bool:
    return _EFFECTS.match(instruction.opcode) is not None


def _is_jump(instruction: Instruction) -> bool:
    """Whether it goes on elsewhere without a choice, so that nothing needs it."""
    return instruction.opcode.startswith("bra") and instruction.predicate is None


def _choices(graph: Graph, every: Iterable[Instruction], is_of_records: set[int]) -> set[int]:
    """The branches that depend on the profile scratch, by which a CTA chooses whether it records."""
    instructions = list(every)
    derived: set[str] = set()
    changed = True
    while changed:
        changed = False
        for instruction in instructions:
            comes_from_it = (
                id(instruction) in is_of_records
                or _loads_parameter(instruction, graph.params[-1])
                or not derived.isdisjoint(sources(instruction))
            )
            new = set(writes(instruction)) - derived if comes_from_it else set()
            changed |= bool(new)
            derived |= new
    return {id(i) for i in instructions if i.opcode.startswith("br") and not derived.isdisjoint(sources(i))}


def _loads_parameter(instruction: Instruction, name: str) -> bool:
    if not instruction.opcode.startswith("ld.param"):
        return False
    where = instruction.operands[1]
    return isinstance(where, Address) and isinstance(where.base, Symbol) and where.base.name == name


def _controllers(graph: Graph) -> list[list[int]]:
    """For each block, the blocks whose branch decides whether it runs."""
    blocks = graph.blocks
    everything = (1 << len(blocks)) - 1
    after = [everything if block.successors() else 1 << n for n, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            successors = blocks[number].successors()
            if not successors:
                continue
            common = everything
            for successor in successors:
                common &= after[successor]
            new = common | 1 << number
            changed |= new != after[number]
            after[number] = new
    controllers: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        on_one_way = 0
        for successor in block.successors():
            on_one_way |= after[successor]
        strictly = after[number] & ~(1 << number)
        decided = on_one_way & ~strictly if len(set(block.successors())) > 1 else 0
        for other in range(len(blocks)):
            if decided >> other & 1:
                controllers[other].append(number)
    return controllers
