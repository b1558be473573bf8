"""Parameters that are read through their address, as where a kernel chooses between two of its arguments.

LLVM makes one load of a choice between two, through a register that the program computes:

    mov.b64 %rd1, kernel_param_2;
    mov.b64 %rd2, kernel_param_3;
    selp.b64 %rd3, %rd1, %rd2, %p1;
    ld.param.b32 %r1, [%rd3];

Here a parameter's address is a number of its own, and such a load becomes a load of each parameter whose
address the function takes, and a `selp` by number. So parameters stay values that are the same in all
threads, and what pointer an address comes from stays known.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from profscope.emulator.ptx.syntax import Address, Function, Immediate, Instruction, Register, Symbol
from profscope.errors import EmulatorError

__all__ = ["addresses_of", "as_wide_as", "is_load_through_address", "load_by_address", "with_numbers"]

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
    """What a load through a register becomes.

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
