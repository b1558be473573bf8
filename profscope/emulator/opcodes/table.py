"""The opcode table: the meaning of each PTX instruction as a function on numpy arrays.

An entry is a function under `@op(...)`. It gets a `Form` (one instruction as written) and returns a
`Meaning`: a function on arrays, the operands it reads and writes, and the kind of each. It runs once when a
kernel is translated; the function in the `Meaning` runs every time the instruction executes, for all threads
at once.

Values and their kinds are those of `arrays.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from profscope.emulator.arrays import Array
from profscope.emulator.costs import Cost
from profscope.emulator.ptx_syntax import Immediate, Instruction, Operand, Vector
from profscope.errors import EmulatorError

__all__ = ["TABLE", "Form", "Meaning", "Op", "elementwise", "items", "lookup", "nothing", "op"]

_TYPES = {
    "b8": "u8", "u8": "u8", "s8": "i8", "b16": "i16", "u16": "u16", "s16": "i16", "f16": "f16",
    "bf16": "bf16",
    "b32": "i32", "u32": "u32", "s32": "i32", "f32": "f32", "f16x2": "f16x2", "bf16x2": "bf16x2",
    "b64": "i64", "u64": "u64", "s64": "i64", "f64": "f64", "pred": "pred", "tf32": "i32",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One instruction as written: of `ld.global.v2.b32` the name is "ld", the kinds ("i32",)."""

    instruction: Instruction
    name: str
    modifiers: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The last type of the opcode, which for most instructions is the only one."""
        return self.kinds[-1]

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.instruction.operands

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def pick(self, *choices: str) -> str:
        """The one of `choices` among the modifiers; "" if none is."""
        return next((m for m in self.modifiers if m in choices), "")

    def constant(self, index: int) -> int | None:
        """The value of operand `index` if it is an integer written in the instruction."""
        operand = self.operands[index]
        return operand.bits if isinstance(operand, Immediate) else None

    def unsupported(self, why: str) -> EmulatorError:
        return EmulatorError(f"{self.instruction}: {why}")


@dataclass(frozen=True)
class Meaning:
    """The functions to call. `on_machine` functions get (machine, mask, site) before their arrays.

    `mask` is None when every thread of the batch executes, else a boolean array of those that do.
    `is_sync` functions may move the warps' clocks, so the clocks are brought up to date before.
    """

    function: Callable[..., Any]
    results: Sequence[tuple[Operand, str]]
    arguments: Sequence[tuple[Operand, str]]
    on_machine: bool = False
    is_sync: bool = False


@dataclass(frozen=True)
class Op:
    """A row of the table. `result_count` leading operands are written; `cost` is its cost model class;
    `meaning` is what the documentation says of it."""

    name: str
    modifiers: frozenset[str]
    cost: Cost
    result_count: int
    resolve: Callable[[Form], Meaning]
    meaning: str


TABLE: dict[str, Op] = {}


def op(
    names: str, modifiers: str = "", *, cost: Cost = Cost.ALU, results: int = 1, meaning: str = ""
) -> Callable[[Callable[[Form], Meaning]], Callable[[Form], Meaning]]:
    """Enter a function in the table under each of `names`; `modifiers` are all that the opcode may carry.

    meaning: the function's docstring, if it has none that says it.
    """

    def enter(resolve: Callable[[Form], Meaning]) -> Callable[[Form], Meaning]:
        for name in names.split():
            TABLE[name] = Op(
                name, frozenset(modifiers.split()), cost, results, resolve, meaning or resolve.__doc__ or ""
            )
        return resolve

    return enter


def lookup(instruction: Instruction) -> tuple[Op, Form]:
    """The table's row for an instruction. Raises EmulatorError for an unknown opcode or modifier."""
    name, kinds, modifiers = _read(instruction.opcode)
    row = TABLE.get(name)
    unknown = [m for m in modifiers if row is not None and m not in row.modifiers]
    if row is None or unknown:
        detail = f": modifier .{unknown[0]} is unknown" if unknown else ": unknown opcode"
        raise EmulatorError(f"the emulator cannot execute {instruction}{detail}")
    return row, Form(instruction, name, modifiers, kinds or ("i32",))


@cache
def _read(opcode: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The name of its row, its types and its modifiers."""
    parts = opcode.split(".")
    name, rest = parts[0], parts[1:]
    for length in (3, 2):  # cp.async.commit_group, call.vprintf: the longest name in the table
        joined = ".".join(parts[:length])
        if joined in TABLE:
            name, rest = joined, parts[length:]
            break
    kinds = tuple(_TYPES[part] for part in rest if part in _TYPES)
    modifiers = tuple(part.split("::")[0] for part in rest if part not in _TYPES)
    return name, kinds, modifiers


def nothing(form: Form) -> Meaning:
    """An instruction without an effect on values."""
    return Meaning(lambda: None, [], [])


def elementwise(form: Form, function: Callable[..., Array], result: str, *arguments: str) -> Meaning:
    """Operand 0 is `function` of the others; their kinds are given in order."""
    return Meaning(
        function, [(form.operands[0], result)], list(zip(form.operands[1:], arguments, strict=True))
    )


def items(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)
