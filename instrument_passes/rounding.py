"""Whether two builds of a kernel do the same floating-point arithmetic, told from their PTX.

In `a * b + c * d` either product may be fused into the addition, and so not be rounded. Which one LLVM takes
depends on the order it keeps its operands in, and that on what else stands between them: on clock reads, say.
The instructions are as many then, but of other operands. So expressions are compared, not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

__all__ = ["Arithmetic", "arithmetic_of"]

_LINE: Final = re.compile(
    r"^[ \t]*\.loc\s(?P<place>[^\n]*)$"
    r"|^[ \t]*(?:@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>[^\n;]*);",
    re.MULTILINE,
)
_FUNCTION: Final = re.compile(r"\.(?:func|entry)\b")
_COMMA: Final = re.compile(r",\s*(?![^{\[]*[}\]])")  # not in braces or brackets
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_FLOATS: Final = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_WITHOUT_RESULT: Final = frozenset(
    {"st", "red", "bar", "barrier", "bra", "setp", "fence", "membar", "prefetch"}
)
_COMMUTE: Final = frozenset({"add", "mul", "fma", "min", "max"})  # in their first two operands
# What they read counts, though they are no arithmetic: the first so many operands.
_PASS_ON: Final = {"cvt": 1, "selp": 2, "shfl": 1}
_COUNTED: Final = ("fma", "mul", "add", "sub")
_PRODUCTS: Final = ("fma", "mul")


@dataclass(frozen=True)
class Arithmetic:
    """expressions: a hash of each product of floats, fused into an addition or not, down to the loads and
    loops that its values come from: nothing else rounds in one build and not in the other. counts: how many
    instructions of a name there are."""

    expressions: frozenset[str]
    counts: tuple[tuple[str, int], ...]

    @property
    def digest(self) -> str:
        """The same for two builds that round alike."""
        return blake2b("".join(sorted(self.expressions)).encode(), digest_size=12).hexdigest()

    def differs_from(self, other: Arithmetic) -> bool:
        """Whether results may be rounded differently. Code that is there more often is no difference."""
        return self.expressions != other.expressions

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.counts)


def arithmetic_of(ptx: str) -> Arithmetic:
    """The floating-point arithmetic of a PTX text."""
    expressions: set[str] = set()
    counts = dict.fromkeys(_COUNTED, 0)
    for function in _FUNCTION.split(ptx):  # each has registers of its own
        _read(function, expressions, counts)
    return Arithmetic(frozenset(expressions), tuple(counts.items()))


def _read(function: str, expressions: set[str], counts: dict[str, int]) -> None:
    """Add a function's arithmetic. In the order of its text, registers are written before they are read."""
    lines = list(_LINE.finditer(function))
    written: Counter[str] = Counter()
    for line in lines:
        if line["opcode"] and line["opcode"].partition(".")[0] not in _WITHOUT_RESULT:
            written.update(_REGISTER.findall(_COMMA.split(line["operands"])[0]))
    values: dict[str, str] = {}  # by register
    place = ""
    for line in lines:
        if line["opcode"] is None:
            place = line["place"].partition("//")[2].strip() or line["place"]
            continue
        name, *modifiers = line["opcode"].split(".")
        if name in _WITHOUT_RESULT:
            continue
        result, *operands = _COMMA.split(line["operands"])
        registers = _REGISTER.findall(result)
        if name == "ld":
            value = _parameter(operands[0]) if "param" in modifiers else f"loaded at {place}"
        elif any(written[register] > 1 for register in registers):
            value = "of several"  # at the start of a loop, behind a branch
        else:
            value = _value(line["opcode"], operands, values)
        if len(registers) == 1 and name != "ld":
            values[registers[0]] = value
        else:
            values |= {register: f"{value} {at}" for at, register in enumerate(registers)}
        if name in _COUNTED and not _FLOATS.isdisjoint(modifiers):
            counts[name] += 1
            if name in _PRODUCTS:
                expressions.add(value)


def _value(opcode: str, operands: list[str], values: dict[str, str]) -> str:
    """What an instruction computes, from what its operands are; for integers just its name."""
    name, *modifiers = opcode.split(".")
    read = [_operand(text, values) for text in operands]
    if name == "mov":
        return read[0]
    if name in _PASS_ON:
        read = read[: _PASS_ON[name]]
    elif _FLOATS.isdisjoint(modifiers):
        return name
    if name in _COMMUTE:
        read[:2] = sorted(read[:2])
    return blake2b("\n".join([opcode, *read]).encode(), digest_size=12).hexdigest()


def _parameter(text: str) -> str:
    """A parameter without the name of its function, or a result: instrumented functions have more of both."""
    number = re.search(r"_param_\d+", text)
    return number[0] if number else "result"


def _operand(text: str, values: dict[str, str]) -> str:
    """An operand with its registers replaced; `{%r1, %r2}` is one too."""
    return _REGISTER.sub(lambda register: values.get(register[0], "unknown"), text.strip())
