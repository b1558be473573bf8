"""Calls inlined: a kernel as one list of instructions and labels, parameters of calls as registers."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from profscope.emulator.ptx_syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Vector,
)
from profscope.emulator.translation.graph import CARRY
from profscope.errors import EmulatorError

__all__ = ["Inliner"]

INTRINSICS = ("vprintf", "__assertfail")


class Inliner:
    """Copies callees to where they are called; parameters become registers."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.body: list[Instruction | Symbol] = []
        self.registers: dict[str, str] = {CARRY: "pred"}
        self.locals: dict[str, int] = {}
        self.local_bytes = 0
        self.calls = 0

    def inline(
        self,
        function: Function,
        prefix: str,
        arguments: list[str],
        results: list[str],
        return_label: str,
        callers: tuple[str, ...],
    ) -> None:
        """Append `function`'s body. `arguments` and `results` are names of the caller's parameter space."""
        if function.name in callers:
            raise EmulatorError(f"{function.name} calls itself: recursion is not supported")
        for register, kind in function.registers.items():
            self.registers[prefix + register] = kind
        for variable, size in function.locals.items():
            self.locals[prefix + variable] = self.local_bytes
            self.local_bytes += (size + 15) // 16 * 16
        names = dict(zip([p.name for p in function.params], arguments, strict=False))
        names.update(zip(function.results, results, strict=False))
        addressed = addresses_of(function)
        for item in function.body:
            if isinstance(item, Symbol):
                self.body.append(Symbol(prefix + item.name))
                continue
            instruction = self.renamed(with_numbers(item, addressed), function, prefix, names)
            base = instruction.opcode.split(".")[0]
            if base == "call":
                self.call(instruction, prefix, (*callers, function.name))
            elif base == "ret" and return_label:
                target = (Symbol(return_label),)
                self.body.append(replace(instruction, opcode="bra.uni", operands=target))
            elif is_load_through_address(instruction):
                wide = as_wide_as(instruction, function)
                numbers = {names.get(n, n): number for n, number in addressed.items() if n in wide}
                self.load_by_address(instruction, numbers)
            elif instruction.opcode.startswith(("ld.param", "st.param")):
                self.parameter_access(instruction)
            else:
                self.body.append(instruction)

    def renamed(
        self, item: Instruction, function: Function, prefix: str, names: dict[str, str]
    ) -> Instruction:
        labels = {s.name for s in function.body if isinstance(s, Symbol)} if prefix else set()

        def rename(operand: Operand) -> Operand:
            if isinstance(operand, Register):
                return Register(prefix + operand.name) if operand.name in function.registers else operand
            if isinstance(operand, Vector):
                return Vector(tuple(rename(i) for i in operand.items))
            if isinstance(operand, Address):
                base = rename(operand.base)
                assert isinstance(base, Register | Symbol | Immediate)
                return Address(base, operand.offset)
            if isinstance(operand, Symbol):
                if operand.name in names:
                    return Symbol(names[operand.name])
                if operand.name in labels or operand.name in function.locals or "." in operand.name:
                    return Symbol(prefix + operand.name)
            return operand

        operands = item.operands
        if item.opcode.startswith("brx"):
            operands = (operands[0], listed(item, function))
        predicate = item.predicate and (Register(prefix + item.predicate[0].name), item.predicate[1])
        return replace(item, operands=tuple(rename(o) for o in operands), predicate=predicate)

    def slot(self, name: str, offset: int, kind: str) -> Register:
        """The register that stands for bytes of a call's parameter space."""
        slot = f"param {name}+{offset}"
        self.registers.setdefault(slot, "b" + kind[1:])
        return Register(slot)

    def parameter_access(self, instruction: Instruction) -> None:
        """Loads and stores of call parameters become moves; the kernel's own parameters stay loads."""
        is_load = instruction.opcode.startswith("ld")
        value, where = instruction.operands if is_load else reversed(instruction.operands)
        assert isinstance(where, Address)
        if not isinstance(where.base, Symbol) or "." not in where.base.name:
            self.body.append(instruction)
            return
        kind = instruction.opcode.split(".")[-1]
        items = value.items if isinstance(value, Vector) else (value,)
        for index, item in enumerate(items):
            slot = self.slot(where.base.name, where.offset + index * int(kind[1:]) // 8, kind)
            operands = (item, slot) if is_load else (slot, item)
            self.body.append(replace(instruction, opcode=f"mov.b{kind[1:]}", operands=operands))

    def load_by_address(self, instruction: Instruction, addresses: dict[str, int]) -> None:
        result = instruction.operands[0]
        kind = self.registers.get(result.name, "") if isinstance(result, Register) else ""
        for step in load_by_address(instruction, addresses, kind, self.new_register):
            if step.opcode.startswith("ld.param"):
                self.parameter_access(step)
            else:
                self.body.append(step)

    def new_register(self, kind: str) -> Register:
        name = f"chosen {len(self.registers)}"
        self.registers[name] = kind
        return Register(name)

    def call(self, instruction: Instruction, prefix: str, callers: tuple[str, ...]) -> None:
        operands = list(instruction.operands)
        results: list[str] = []
        if isinstance(operands[0], Vector):
            results = [i.name for i in operands.pop(0).items if isinstance(i, Symbol)]  # type: ignore[union-attr]
        callee = operands.pop(0)
        arguments = [
            i.name for o in operands if isinstance(o, Vector) for i in o.items if isinstance(i, Symbol)
        ]
        if not isinstance(callee, Symbol):
            raise EmulatorError(f"PTX line {instruction.line}: indirect calls are not supported")
        if callee.name in INTRINSICS:
            widths = ("b64", "b64", "b32", "b64", "b64")
            slots = [self.slot(name, 0, width) for name, width in zip(arguments, widths, strict=False)]
            outputs = [self.slot(name, 0, "b32") for name in results]
            self.body.append(replace(instruction, opcode=f"call.{callee.name}", operands=(*outputs, *slots)))
            return
        function = self.module.functions.get(callee.name)
        if function is None:
            raise EmulatorError(f"PTX line {instruction.line}: call of unknown function {callee.name!r}")
        self.calls += 1
        inner = f"{callee.name}#{self.calls}:"
        after = f"{inner}return"
        self.inline(function, inner, arguments, results, after, callers)
        self.body.append(Symbol(after))


def listed(instruction: Instruction, function: Function) -> Vector:
    """The labels that `brx.idx` picks from."""
    where = instruction.operands[1] if len(instruction.operands) == 2 else None
    if not isinstance(where, Symbol) or where.name not in function.branch_targets:
        raise EmulatorError(f"{instruction}: the list of its targets is missing")
    return Vector(function.branch_targets[where.name])


# Parameters that are read through their address, as where a kernel chooses between two of its arguments.
#
# LLVM makes one load of a choice between two, through a register that the program computes:
#
#     mov.b64 %rd1, kernel_param_2;
#     mov.b64 %rd2, kernel_param_3;
#     selp.b64 %rd3, %rd1, %rd2, %p1;
#     ld.param.b32 %r1, [%rd3];
#
# Here a parameter's address is a number of its own, and such a load becomes a load of each parameter whose
# address the function takes, and a `selp` by number. So parameters stay values that are the same in all
# threads, and what pointer an address comes from stays known.

_PARAMETER_BYTES = 8  # at most; so far apart are the addresses of two
_LEAST_BITS = 32  # a narrower parameter has as many, too


def addresses_of(function: Function) -> dict[str, int]:
    """By name of each parameter whose address the function takes: the number that stands for that address."""
    numbers = {parameter.name: _PARAMETER_BYTES * at for at, parameter in enumerate(function.params, 1)}
    taken = {
        operand.name
        for item in function.body
        if isinstance(item, Instruction)
        for operand in item.operands
        if isinstance(operand, Symbol)
    }
    return {name: number for name, number in numbers.items() if name in taken}


def as_wide_as(load: Instruction, function: Function) -> set[str]:
    """The parameters that may be what this instruction loads: it takes no more bits than they have."""
    bits = _bits(load.opcode.rpartition(".")[2])
    return {p.name for p in function.params if bits <= max(_bits(p.type), _LEAST_BITS)}


def with_numbers(instruction: Instruction, addresses: Mapping[str, int]) -> Instruction:
    """The instruction with a number for each parameter's address that it takes."""
    return replace(
        instruction,
        operands=tuple(
            Immediate(addresses[operand.name], 0)
            if isinstance(operand, Symbol) and operand.name in addresses
            else operand
            for operand in instruction.operands
        ),
    )


def is_load_through_address(instruction: Instruction) -> bool:
    where = instruction.operands[1] if instruction.opcode.startswith("ld.param") else None
    return isinstance(where, Address) and isinstance(where.base, Register)


def load_by_address(
    instruction: Instruction, addresses: Mapping[str, int], kind: str, new: Callable[[str], Register]
) -> Iterator[Instruction]:
    """The code of a load through a register.

    `kind` is the PTX type of its result; `new` declares a register of a type.
    Raises EmulatorError for a load from within a parameter, which Triton's kernels do not have.
    """
    result, where = instruction.operands
    if not isinstance(result, Register) or not isinstance(where, Address) or where.offset or not addresses:
        raise EmulatorError(f"{instruction}: a parameter is read in a way that is not supported")
    kind = f"b{_bits(kind)}"
    chosen: Register | None = None
    for name, number in addresses.items():
        value = new(kind)
        yield replace(instruction, operands=(value, Address(Symbol(name), 0)), predicate=None)
        if chosen is not None:
            here, both = new("pred"), new(kind)
            compared = (here, where.base, Immediate(number, 0))
            yield replace(instruction, opcode="setp.eq.b64", operands=compared, predicate=None)
            picked = (both, value, chosen, here)
            yield replace(instruction, opcode=f"selp.{kind}", operands=picked, predicate=None)
            value = both
        chosen = value
    assert chosen is not None
    yield replace(instruction, opcode=f"mov.{kind}", operands=(result, chosen))


def _bits(kind: str) -> int:
    """Of a PTX type, as `b64`."""
    return int(re.sub(r"[^0-9]", "", kind))
