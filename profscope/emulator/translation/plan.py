"""What the translated blocks of a kernel share: meanings of instructions, and a place for each register."""

import re

from profscope.emulator.machine.counts import Counted
from profscope.emulator.opcodes import lookup
from profscope.emulator.opcodes.table import Form, Meaning, Op
from profscope.emulator.ptx.syntax import Instruction, Register
from profscope.emulator.translation.graph import Graph
from profscope.emulator.translation.kinds import raw, width
from profscope.emulator.translation.liveness import writes
from profscope.emulator.translation.pointers import pointer_sources
from profscope.emulator.translation.records import record_instructions

__all__ = ["Plan"]


class Plan:
    """`slots` gives each register that outlives a block its number, `slot_kinds` the kind it is kept as;
    `symbols` are the addresses of variables; `pointers` as `pointer_sources`. `counted` are the instructions
    that the kernel would have without records, and `predicates` how many predicates switch some of them off.
    """

    def __init__(self, graph: Graph, symbols: dict[str, int]) -> None:
        self.graph = graph
        self.symbols = symbols
        self.meanings = {id(i): self.meaning(i) for b in graph.blocks for i in b.instructions}
        self.slots: dict[str, int] = {}
        self.slot_kinds: list[str] = []
        shared = sorted(set().union(*(b.live_in | b.live_out for b in graph.blocks)))
        kinds = self.first_kinds()
        for register in shared:
            self.slots[register] = len(self.slot_kinds)
            self.slot_kinds.append(kinds.get(register) or self.register_kind(register))
        self.pointers = pointer_sources(graph)
        self.records = record_instructions(graph, self.pointers)
        self.parameters = _parameters(graph)
        self.counted: list[Counted] = []
        self.predicates = 0
        self.times = 0  # at which clocks are read or brought up to date

    def count(self, instruction: Instruction, block: int, predicate: int) -> int:
        """The number of an instruction among those that are counted; -1 if it only serves records."""
        if id(instruction) in self.records:
            return -1
        self.counted.append(Counted(instruction, block, predicate, _delayed(instruction)))
        return len(self.counted) - 1

    def new_predicate(self) -> int:
        self.predicates += 1
        return self.predicates - 1

    def new_time(self) -> int:
        self.times += 1
        return self.times - 1

    def meaning(self, instruction: Instruction) -> tuple[Op, Form, Meaning]:
        row, form = lookup(instruction)
        return row, form, row.resolve(form)

    def first_kinds(self) -> dict[str, str]:
        """The kind each register is first written as, which is the cheapest to keep it in between blocks."""
        kinds: dict[str, str] = {}
        for block in self.graph.blocks:
            for instruction in block.instructions:
                for operand, kind in self.meanings[id(instruction)][2].results:
                    if not isinstance(operand, Register) or operand.name in kinds:
                        continue
                    kept = raw(kind)
                    own = self.register_kind(operand.name) if operand.name in self.graph.registers else kept
                    kinds[operand.name] = kept if width(kept) == width(own) else own
        return kinds

    def register_kind(self, name: str) -> str:
        declared = self.graph.registers.get(name, "b32")
        if declared == "pred":
            return "pred"
        bits = re.sub(r"\D", "", declared)
        return f"i{bits}"


def _parameters(graph: Graph) -> frozenset[str]:
    """The registers that hold a parameter of the kernel, and never anything else."""
    loaded: set[str] = set()
    others: set[str] = set()
    for block in graph.blocks:
        for instruction in block.instructions:
            is_load = instruction.opcode.startswith("ld.param") and instruction.predicate is None
            (loaded if is_load else others).update(writes(instruction))
    return frozenset(loaded - others)


def _delayed(instruction: Instruction) -> str:
    """Why warps wait at an instruction for more than its operands: others, copies, or the memory."""
    if instruction.opcode.startswith("bar"):
        return "barrier"
    if instruction.opcode.startswith("cp.async.wait"):
        return "long_scoreboard"
    is_shared = "shared" in instruction.opcode and not instruction.opcode.startswith("cp.async")
    return "mio_throttle" if is_shared else "lg_throttle"
