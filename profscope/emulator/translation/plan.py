"""Data shared by the translated blocks of a kernel: meanings of instructions, and a place for each
register."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.machine.counts import Counted
from profscope.emulator.opcodes import lookup
from profscope.emulator.opcodes.convert import to_bf16
from profscope.emulator.opcodes.table import Form, Meaning, Op
from profscope.emulator.ptx_syntax import Address, Instruction, Register, Symbol
from profscope.emulator.translation.graph import Graph, pointer_sources, reached, reads, sources, writes
from profscope.errors import EmulatorError

__all__ = ["LOAD", "STORE", "Plan", "constant", "converter", "raw", "width"]


def raw(kind: str) -> str:
    """The kind a register of `kind` values is kept as between blocks: signed bits, or a float."""
    return {"u8": "i16", "i8": "i16", "u16": "i16", "u32": "i32", "u64": "i64", "bf16": "i16", "f16x2": "i32",
            "bf16x2": "i32", "f16": "i16"}.get(kind, kind)  # fmt: skip


def width(kind: str) -> int:
    """Bytes of the register bits behind a kind; 0 for predicates."""
    if kind == "pred":
        return 0
    return {"bf16": 2, "f16x2": 4, "bf16x2": 4}.get(kind, DTYPES[kind].itemsize)


def load_bf16(bits: Array) -> Array:
    return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def store_bf16(values: Array) -> Array:
    return (to_bf16(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.int16)


def load_pair(bits: Array) -> Array:
    return np.ascontiguousarray(bits).view(np.float16).reshape(*bits.shape, 2)


def store_pair(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.int32)[..., 0]


def load_bf16_pair(bits: Array) -> Array:
    return load_bf16(np.ascontiguousarray(bits).view(np.int16).reshape(*bits.shape, 2))


def store_bf16_pair(values: Array) -> Array:
    return np.ascontiguousarray(store_bf16(values)).view(np.int32)[..., 0]


LOAD = {"bf16": load_bf16, "f16x2": load_pair, "bf16x2": load_bf16_pair}
STORE = {"bf16": store_bf16, "f16x2": store_pair, "bf16x2": store_bf16_pair}


def converter(have: str, want: str) -> Callable[[Array], Array] | None:
    """The function from one kind to another of the same register; None if not needed.

    A narrower kind takes the low bits; a wider one extends the sign.
    """
    if have == want:
        return None
    if want in LOAD:
        first, load = converter(have, raw(want)), LOAD[want]
        return load if first is None else (lambda x: load(first(x)))
    if have in STORE:
        then, store = converter(raw(have), want), STORE[have]
        return store if then is None else (lambda x: then(store(x)))
    if "pred" in (have, want):
        raise EmulatorError(f"a predicate is used as a number or the other way round ({have}, {want})")
    dtype = DTYPES[want]
    if width(have) == width(want):
        return lambda x: x.view(dtype)
    integer = np.dtype(f"i{width(have)}" if have[0] == "f" else DTYPES[have])
    signed = np.dtype(f"i{width(want)}")
    return lambda x: x.view(integer).astype(signed).view(dtype)


def constant(bits: int, kind: str, literal_width: int = 0) -> Array:
    """An array of one element with these bits; a float literal of another width than `kind` is converted."""
    if kind == "pred":
        return np.full((1, 1, 1), bool(bits))
    size = width(kind)
    if literal_width == 32 and kind == "f64":
        return np.array([bits], np.uint32).view(np.float32).astype(np.float64).reshape(1, 1, 1)
    if literal_width == 64 and size == 4:
        with np.errstate(over="ignore"):
            single = np.array([bits], np.uint64).view(np.float64).astype(np.float32)
        bits = int(single.view(np.uint32)[0])
    stored = np.array([bits % (1 << 8 * size)], f"u{size}").reshape(1, 1, 1)
    convert = converter(f"u{8 * size}", kind)
    return stored if convert is None else convert(stored)


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

    def register_room(self, name: str) -> int:
        """How many of a thread's registers one of PTX takes: none if it is a special one, or a parameter."""
        if name in self.parameters or name not in self.graph.registers:
            return 0
        return -(-width(self.register_kind(name)) // 4)


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


# Which instructions of a recorded kernel serve its records alone.
#
# A record is a store to the profile scratch, the kernel's last pointer. Without these stores, a compiler
# would remove all that only they need: clock reads, addresses, branches around them. That is what is found
# here, as aggressive dead code elimination finds it (Cytron et al., 1991).


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
    roots = [i for i in instructions if id(i) in is_of_records or _loads_parameter(i, graph.params[-1])]
    forth = [(sources(i), writes(i)) for i in instructions]
    derived = reached([name for i in roots for name in writes(i)], forth)
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
