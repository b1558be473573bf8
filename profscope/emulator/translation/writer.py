"""Writes the Python of a basic block: a numpy call or two an instruction.

A block's function is called as `block(machine, registers, mask)`. Registers that only matter inside the block
are its local variables; the others are kept in the list `registers`. With a mask, values of threads that are
not active are computed like the others and thrown away at the block's end.
"""

import re
from typing import Any

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.costs import COSTS, EXPANDED_LATENCY, STALLS, Cost, use_of
from profscope.emulator.machine.block import Site
from profscope.emulator.opcodes.table import Form, Meaning, Op, lookup
from profscope.emulator.ptx_syntax import Address, Immediate, Instruction, Operand, Register, Symbol, Vector
from profscope.emulator.translation.graph import reads, writes
from profscope.emulator.translation.ordering import (
    FENCE,
    BlockSteps,
    Issue,
    Tick,
    in_order,
    register_budget,
    touches,
)
from profscope.emulator.translation.plan import LOAD, STORE, Plan, constant, converter, raw, width
from profscope.errors import EmulatorError

__all__ = ["BlockWriter"]

CLOCK_REGISTERS = {  # of each, the whole counter, and by how many bits it is shifted
    "%clock": ("clock", 0), "%clock_hi": ("clock", 32), "%clock64": ("clock", 0),
    "%globaltimer": ("globaltimer", 0), "%globaltimer_lo": ("globaltimer", 0),
    "%globaltimer_hi": ("globaltimer", 32),
}  # fmt: skip
SPECIAL_REGISTERS = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + ["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"]
    + [f"%lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")]
    + ["%total_smem_size", "%dynamic_smem_size"]
)
UNITS = {
    Cost.MMA: "tensor", Cost.EXCHANGE: "exchange", Cost.SHARED_LOAD: "shared", Cost.MATRIX_LOAD: "shared",
}  # fmt: skip


def keep(p: Array, new: Array, old: Array) -> Array:
    """The value that a predicated instruction leaves in its result register."""
    return np.where(p, new, old)


class BlockWriter:
    """Writes the Python of one block."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.block = plan.graph.blocks[number]
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"keep": keep, "invert": np.invert}
        self.names = 0
        self.variables: dict[str, dict[str, str]] = {}  # of each register, what holds it, by kind
        self.constants: dict[tuple[int, str, int], str] = {}
        self.inverted: dict[str, str] = {}  # of a predicate's variable
        self.active: dict[str, str] = {}  # the mask joined with a predicate's variable
        self.predicates: dict[str, int] = {}  # of a predicate's variable, its number among those counted
        self.steps: list[Issue | Tick] = []
        self.end = 0  # steps before those of the block's end
        self.end_number = -1  # of the instruction that ends the block, among those counted

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
        if operand.name not in self.plan.graph.registers:
            return self.special(operand.name, kind)
        versions = self.variables.get(operand.name)
        if versions is None:
            slot = self.plan.slots[operand.name]
            versions = {self.plan.slot_kinds[slot]: self.let(f"R[{slot}]")}
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
        if symbol.name in self.plan.graph.locals:
            return self.plan.graph.locals[symbol.name]
        if symbol.name in self.plan.symbols:
            return self.plan.symbols[symbol.name]
        raise EmulatorError(f"unknown PTX symbol {symbol.name!r}")

    def special(self, name: str, kind: str) -> str:
        if name in CLOCK_REGISTERS:
            counter, shift = CLOCK_REGISTERS[name]
            time, step = self.plan.new_time(), self.steps[-1]
            assert isinstance(step, Issue)
            step.clocks.append(time)
            read, have = self.let(f"m.{counter}({time})" + f" >> {shift}" * bool(shift)), "i64"
            if name not in ("%clock64", "%globaltimer"):
                read, have = self.converted(read, have, "i32"), "i32"
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
                raise EmulatorError(f"{instruction}: {error}") from error
        result = self.finish()
        body = _release(self.lines, result)
        return f"def {name}(m, R, mask):\n" + "".join(f"    {line}\n" for line in body), self.namespace

    def instruction(self, instruction: Instruction) -> None:
        row, form, meaning = self.plan.meanings[id(instruction)]
        if meaning.is_sync and (self.steps or self.block.continues):
            self.tick()
        predicate = self.predicate(instruction)
        counted = self.count(instruction, predicate)
        step = self.issue(instruction, form, _cost(row, form), counted)
        self.steps.append(step)
        outputs = self.call(instruction, form, meaning, predicate, counted, step.issue)
        for (operand, kind), variable in zip(meaning.results, outputs, strict=True):
            self.assign(operand, kind, variable, predicate, meaning.on_machine)

    def issue(self, instruction: Instruction, form: Form, cost: Cost, counted: int) -> Issue:
        """The step of an instruction."""
        meets = self.block.meets and not self.steps
        use, cycles = use_of(instruction.opcode), COSTS[cost]
        expanded = EXPANDED_LATENCY * use.slots if use.slots > 2 else 0
        return Issue(
            counted,
            tuple(reads(instruction)),
            tuple(writes(instruction)),
            issue=max(cycles.issue, use.slots if use.of_sm else use.busy),
            latency=cycles.latency + expanded,
            use=use,
            stalls=STALLS[cost],
            touches=FENCE if meets else touches(form, cost),
            unit=UNITS.get(cost, ""),
        )

    def count(self, instruction: Instruction, predicate: tuple[str, str] | None) -> int:
        """The instruction's number among those that are counted, or -1; emit the count of its predicate."""
        if id(instruction) in self.plan.records:
            return -1
        if predicate is None:
            return self.plan.count(instruction, self.number, -1)
        value, mask = predicate
        if value not in self.predicates:
            self.predicates[value] = self.plan.new_predicate()
            self.lines.append(f"m.count_predicate({self.predicates[value]}, {mask})")
        return self.plan.count(instruction, self.number, self.predicates[value])

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
        self,
        instruction: Instruction,
        form: Form,
        meaning: Meaning,
        predicate: tuple[str, str] | None,
        counted: int,
        issue: int,
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
            pointers = self.plan.pointers.get(id(instruction), frozenset())
            site = self.bind("S", Site(instruction, pointers, counted, issue))
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
        graph = self.plan.graph
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
        own = self.plan.register_kind(operand.name)
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

    def tick(self, needed: frozenset[str] = frozenset()) -> None:
        """Bring the warps' clocks up to here. needed: registers to wait for."""
        time = self.plan.new_time()
        self.lines.append(f"m.tick(mask, {time})")
        self.steps.append(Tick(time, tuple(sorted(needed))))

    def finish(self) -> str:
        """Store what later blocks read, and return the branch condition's variable, if any."""
        last = self.block.end_instruction
        self.end = len(self.steps)
        result = ""
        if self.block.end in ("branch", "switch") and last is not None:
            result = self.direction(last)
        elif last is not None:
            self.end_number = self.count(last, None)
        if last is not None:
            _, form = lookup(last)
            self.steps.append(self.issue(last, form, Cost.CONTROL, self.end_number))
        written = {name for i in self.block.instructions for name in writes(i)}
        kept = sorted(written & self.block.live_out)
        if self.steps or self.block.continues:
            self.tick(frozenset() if self.is_cut else self.block.live_out)
        plain, merged = [], []
        for name in kept:
            slot = self.plan.slots[name]
            value = self.value(Register(name), self.plan.slot_kinds[slot])
            plain.append(f"    R[{slot}] = {value}")
            merged.append(f"    R[{slot}] = keep(mask, {value}, R[{slot}])")
        if plain:
            self.lines += ["if mask is None:", *plain, "else:", *merged]
        self.lines.append(f"return {result}" if result else "return None")
        return result

    @property
    def block_steps(self) -> BlockSteps:
        """The steps of a written block, for `schedule`."""
        first = self.block.instructions[0].predicate if self.block.meets else None
        predicate = first and (self.plan.slots[first[0].name], first[1])
        end = self.steps[self.end :]
        needed = self.block.live_out.union(*(step.reads for step in end if isinstance(step, Issue)))
        budget = register_budget(self.plan.graph.threads)
        steps = in_order(self.steps[: self.end], needed, self.plan.register_room, budget)
        return BlockSteps(self.block, [*steps, *end], predicate, self.is_cut)

    @property
    def is_cut(self) -> bool:
        """Whether the block was cut off before a sync point: the next one goes on in the middle of things."""
        block = self.block
        return block.end == "jump" and block.next >= 0 and self.plan.graph.blocks[block.next].continues

    def count_branch(self, last: Instruction, condition: str) -> None:
        """Count a branch, for the threads that its predicate does not switch off."""
        if not condition or id(last) in self.plan.records:
            self.end_number = self.count(last, None)
            return
        number = self.plan.new_predicate()
        self.lines.append(f"m.count_predicate({number}, m.join(mask, {condition}))")
        self.end_number = self.plan.count(last, self.number, number)

    def direction(self, last: Instruction) -> str:
        """The variable with a branch's condition, or with a switch's index (-1: to `next`)."""
        condition = ""
        if last.predicate is not None:
            register, negated = last.predicate
            condition = self.value(register, "pred")
            condition = self.let(f"invert({condition})") if negated else condition
        self.count_branch(last, condition)
        if self.block.end == "branch":
            return condition
        index = self.value(last.operands[0], "i32")
        nowhere = self.constant(-1, "i32", 0)
        return self.let(f"keep({condition}, {index}, {nowhere})") if condition else index


def _cost(row: Op, form: Form) -> Cost:
    """The class of an instruction in the cost model, a load's by its state space."""
    if row.cost is not Cost.GLOBAL_LOAD:
        return row.cost
    space = form.pick("shared", "local", "param", "const")
    by_space = {"": Cost.GLOBAL_LOAD, "shared": Cost.SHARED_LOAD, "local": Cost.LOCAL}
    return by_space.get(space, Cost.PARAMETER)


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
