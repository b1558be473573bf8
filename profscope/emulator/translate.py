"""From a control flow graph to Python: one function a basic block, a numpy call or two an instruction.

A block's function is called as `block(machine, registers, mask)`. Registers that only matter inside the block
are its local variables; the others are kept in the list `registers`. With a mask, values of threads that are
not active are computed like the others and thrown away at the block's end.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from profscope.emulator.costs import COSTS, Cost
from profscope.emulator.flow import Block, Graph, reads, writes
from profscope.emulator.kinds import LOAD, STORE, constant, converter, raw, width
from profscope.emulator.opcodes import lookup
from profscope.emulator.opcodes.table import DTYPES, Array, Form, Meaning, Op, describe_instruction
from profscope.emulator.pointers import pointer_sources
from profscope.emulator.ptx import Address, Immediate, Instruction, Operand, Register, Symbol, Vector
from profscope.errors import EmulatorError

__all__ = ["CLOCK_REGISTERS", "Site", "TranslatedBlock", "translate"]

CLOCK_REGISTERS = {
    "%clock": "clock_low", "%clock_hi": "clock_high", "%clock64": "clock",
    "%globaltimer": "globaltimer", "%globaltimer_lo": "globaltimer_low",
    "%globaltimer_hi": "globaltimer_high",
}  # fmt: skip
SPECIAL_REGISTERS = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + ["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"]
    + [f"%lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")]
    + [f"%cluster_{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"]
    + ["%cluster_ctarank", "%cluster_nctarank", "%total_smem_size", "%dynamic_smem_size"]
)


@dataclass(frozen=True)
class Site:
    """An instruction at run time: what errors name, and the parameter its address comes from, if only one."""

    instruction: Instruction
    pointer: int | None


@dataclass(frozen=True)
class TranslatedBlock:
    """`run` returns the branch condition, or None; the rest is as in `Block`."""

    run: Callable[..., Array | None]
    end: str
    next: int
    taken: int
    site: Site | None
    barrier: tuple[int, int]  # id and thread count (0: all of the CTA)
    instructions: int


def keep(p: Array, new: Array, old: Array) -> Array:
    """What a predicated instruction leaves in its result register."""
    return np.where(p, new, old)


def translate(graph: Graph, symbols: dict[str, int]) -> tuple[list[TranslatedBlock], list[Array]]:
    """The blocks' functions, and the registers' initial values. `symbols` gives each variable its address."""
    translator = _Translator(graph, symbols)
    blocks = [translator.block(number, block) for number, block in enumerate(graph.blocks)]
    initial = [constant(0, kind) for kind in translator.slot_kinds]
    return blocks, initial


class _Translator:
    """What the blocks of a kernel share."""

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

    def block(self, number: int, block: Block) -> TranslatedBlock:
        writer = _BlockWriter(self, block)
        source, namespace = writer.write(f"block_{number}")
        code: CodeType = compile(source, f"<{self.graph.name} block {number}>", "exec")
        exec(code, namespace)
        last = block.end_instruction
        return TranslatedBlock(
            run=namespace[f"block_{number}"],
            end=block.end,
            next=block.next,
            taken=block.taken,
            site=Site(last, None) if last else None,
            barrier=_barrier(block),
            instructions=len(block.instructions) + (last is not None),
        )


def _barrier(block: Block) -> tuple[int, int]:
    last = block.end_instruction
    if block.end != "barrier" or last is None:
        return (0, 0)
    values = []
    for operand in last.operands:
        if not isinstance(operand, Immediate):
            raise EmulatorError(
                f"{describe_instruction(last)}: barrier numbers in registers are not supported"
            )
        values.append(operand.bits)
    return (values[0] if values else 0, values[1] if len(values) > 1 else 0)


class _BlockWriter:
    """Writes the Python of one block."""

    def __init__(self, shared: _Translator, block: Block) -> None:
        self.shared = shared
        self.block = block
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"keep": keep, "invert": np.invert}
        self.names = 0
        self.variables: dict[str, dict[str, str]] = {}  # of each register, what holds it, by kind
        self.constants: dict[tuple[int, str, int], str] = {}
        self.inverted: dict[str, str] = {}  # of a predicate's variable
        self.active: dict[str, str] = {}  # the mask joined with a predicate's variable
        self.ready: dict[str, int] = {}  # cycle since the last tick at which a register can be read
        self.time = 0

    # --- names ---

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def let(self, expression: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        return name

    # --- operands ---

    def value(self, operand: Operand, kind: str) -> str:
        """A variable that holds `operand` as `kind`."""
        if isinstance(operand, Immediate):
            return self.constant(operand.bits, kind, operand.width)
        if isinstance(operand, Symbol):
            return self.constant(self.symbol(operand), kind, 0)
        if isinstance(operand, Vector | Address):
            raise EmulatorError("a vector or address is not a value")
        if operand.name not in self.shared.graph.registers:
            return self.special(operand.name, kind)
        versions = self.variables.get(operand.name)
        if versions is None:
            slot = self.shared.slots[operand.name]
            versions = {self.shared.slot_kinds[slot]: self.let(f"R[{slot}]")}
            self.variables[operand.name] = versions
        if kind not in versions:
            have = next(iter(versions))
            if width(have) < width(kind) and have[0] == "i":  # addresses: 32 bits are extended with zeros
                unsigned = "u" + have[1:]
                versions.setdefault(unsigned, self.converted(versions[have], have, unsigned))
                have = unsigned
            versions[kind] = self.converted(versions[have], have, kind)
        return versions[kind]

    def converted(self, variable: str, have: str, want: str) -> str:
        function = converter(have, want)
        if function is None:
            return variable
        simple = have not in STORE and want not in LOAD and width(have) == width(want)
        if simple:
            return self.let(f"{variable}.view({self.bind('T', DTYPES[want])})")
        return self.let(f"{self.bind('C', function)}({variable})")

    def constant(self, bits: int, kind: str, literal_width: int) -> str:
        key = (bits, kind, literal_width)
        if key not in self.constants:
            self.constants[key] = self.bind("K", constant(*key))
        return self.constants[key]

    def symbol(self, symbol: Symbol) -> int:
        if symbol.name in self.shared.graph.locals:
            return self.shared.graph.locals[symbol.name]
        if symbol.name in self.shared.symbols:
            return self.shared.symbols[symbol.name]
        raise EmulatorError(f"unknown PTX symbol {symbol.name!r}")

    def special(self, name: str, kind: str) -> str:
        if name in CLOCK_REGISTERS:
            have = "i64" if name in ("%clock64", "%globaltimer") else "i32"
            read = self.let(f"m.{CLOCK_REGISTERS[name]}({self.time})")
        elif name in SPECIAL_REGISTERS:
            have = "i32"
            read = self.let(f"m.special[{name!r}]")
        else:
            raise EmulatorError(f"unknown PTX register {name!r}")
        return self.converted(read, have, kind)

    # --- instructions ---

    def write(self, name: str) -> tuple[str, dict[str, Any]]:
        """The function's source and the globals it needs."""
        for instruction in self.block.instructions:
            try:
                self.instruction(instruction)
            except EmulatorError as error:
                if "PTX line" in str(error):
                    raise
                raise EmulatorError(f"{describe_instruction(instruction)}: {error}") from error
        result = self.finish()
        body = _release(self.lines, result)
        return f"def {name}(m, R, mask):\n" + "".join(f"    {line}\n" for line in body), self.namespace

    def instruction(self, instruction: Instruction) -> None:
        row, form, meaning = self.shared.meanings[id(instruction)]
        self.time = max([self.time, *(self.ready.get(name, 0) for name in reads(instruction))])
        if meaning.is_sync:
            self.tick()
        issued = self.time
        predicate = self.predicate(instruction)
        outputs = self.call(instruction, form, meaning, predicate)
        for (operand, kind), variable in zip(meaning.results, outputs, strict=True):
            self.assign(operand, kind, variable, predicate, meaning.on_machine)
        cycles = COSTS[row.cost]
        parts = max([1, *(len(o.items) for o in instruction.operands if isinstance(o, Vector))])
        self.time = issued + cycles.issue * (parts if row.name in ("ld", "st") else 1)
        latency = self.load_latency(form) if row.name == "ld" else cycles.latency
        for register in writes(instruction):
            self.ready[register] = issued + latency

    def load_latency(self, form: Form) -> int:
        space = form.pick("shared", "local", "param", "const")
        by_space = {"shared": Cost.SHARED_LOAD, "local": Cost.LOCAL}
        return COSTS[by_space.get(space, Cost.PARAMETER if space else Cost.GLOBAL_LOAD)].latency

    def predicate(self, instruction: Instruction) -> tuple[str, str] | None:
        """The predicate's value and the mask joined with it."""
        if instruction.predicate is None:
            return None
        register, negated = instruction.predicate
        value = self.value(register, "pred")
        if negated:
            if value not in self.inverted:
                self.inverted[value] = self.let(f"invert({value})")
            value = self.inverted[value]
        if value not in self.active:
            self.active[value] = self.let(f"m.join(mask, {value})")
        return value, self.active[value]

    def call(
        self, instruction: Instruction, form: Form, meaning: Meaning, predicate: tuple[str, str] | None
    ) -> list[str]:
        """Emit the call of the instruction's function; returns the variables of its results."""
        if instruction.opcode.startswith("ld.param"):
            return [self.kernel_parameter(instruction, meaning)]
        arguments = [self.value(operand, kind) for operand, kind in meaning.arguments]
        if instruction.opcode.startswith("mov.") and len(arguments) == 1 and len(meaning.results) == 1:
            kinds = (meaning.arguments[0][1], meaning.results[0][1])
            if kinds[0] == kinds[1]:
                return arguments
        if meaning.on_machine:
            mask = predicate[1] if predicate else "mask"
            site = self.bind("S", Site(instruction, self.shared.pointers.get(id(instruction))))
            arguments = ["m", mask, site, *arguments]
        elif not meaning.results:
            return []
        expression = f"{self.bind('F', meaning.function)}({', '.join(arguments)})"
        if not meaning.results:
            self.lines.append(expression)
            return []
        names = [self.fresh() for _ in meaning.results]
        self.lines.append(f"{', '.join(names)} = {expression}")
        return names

    def kernel_parameter(self, instruction: Instruction, meaning: Meaning) -> str:
        where = instruction.operands[1]
        graph = self.shared.graph
        if not isinstance(where, Address) or not isinstance(where.base, Symbol) or where.offset:
            raise EmulatorError("a kernel parameter is read in a way that is not supported")
        if where.base.name not in graph.params:
            raise EmulatorError(f"unknown kernel parameter {where.base.name!r}")
        dtype = self.bind("T", DTYPES[meaning.results[0][1]])
        return self.let(f"m.parameter({graph.params.index(where.base.name)}, {dtype})")

    def assign(
        self, operand: Operand, kind: str, variable: str, predicate: tuple[str, str] | None, masked: bool
    ) -> None:
        """Make `variable` the register's value, as a kind of the register's own width."""
        if not isinstance(operand, Register):
            raise EmulatorError("a result must be a register")
        if operand.name == "_":
            return
        own = self.shared.register_kind(operand.name)
        if kind != "pred" and width(kind) != width(own):
            variable, kind = self.converted(variable, kind, own), own
        if kind in STORE:
            variable, kind = self.converted(variable, kind, raw(kind)), raw(kind)
        if predicate is not None:
            value, mask = predicate
            old = self.value(operand, kind)
            kept = f"keep({value}, {variable}, {old})"
            variable = self.let(f"{variable} if {mask} is mask else {kept}" if masked else kept)
        self.variables[operand.name] = {kind: variable}

    # --- the end ---

    def tick(self) -> None:
        """Bring the warps' clocks up to here."""
        if self.time:
            self.lines.append(f"m.tick(mask, {self.time})")
        self.ready = {name: time - self.time for name, time in self.ready.items() if time > self.time}
        self.time = 0

    def finish(self) -> str:
        """Store what later blocks read, and return the branch condition's variable, if any."""
        last = self.block.end_instruction
        result = ""
        if last is not None:
            self.time = max([self.time, *(self.ready.get(name, 0) for name in reads(last))]) + 2
        if self.block.end == "branch" and last is not None and last.predicate is not None:
            register, negated = last.predicate
            value = self.value(register, "pred")
            result = self.let(f"invert({value})") if negated else value
        written = {name for i in self.block.instructions for name in writes(i)}
        kept = sorted(written & self.block.live_out)
        self.time = max([self.time, *(self.ready.get(name, 0) for name in kept)])
        self.tick()
        plain, merged = [], []
        for name in kept:
            slot = self.shared.slots[name]
            value = self.value(Register(name), self.shared.slot_kinds[slot])
            plain.append(f"    R[{slot}] = {value}")
            merged.append(f"    R[{slot}] = keep(mask, {value}, R[{slot}])")
        if plain:
            self.lines += ["if mask is None:", *plain, "else:", *merged]
        self.lines.append(f"return {result}" if result else "return None")
        return result


_VARIABLE = re.compile(r"\bv\d+\b")


def _release(lines: list[str], result: str) -> list[str]:
    """Drop each variable after its last use, so that its memory serves the next."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        for name in _VARIABLE.findall(line):
            last[name] = number
    end = next((i for i, line in enumerate(lines) if line.startswith("if mask")), len(lines) - 1)
    dead: dict[int, list[str]] = {}
    for name, number in last.items():
        if number < end and name != result:
            dead.setdefault(number, []).append(name)
    released = []
    for number, line in enumerate(lines):
        released.append(line)
        if number in dead:
            released.append(f"del {', '.join(dead[number])}")
    return released
