"""How many registers an operand stands for: R4 of a 128-bit load is R4 to R7.

SASS names the first register only. What follows from the opcode is here; it is compared with the life ranges
that nvdisasm prints, in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from instrument_passes.sass.listing import Instruction

__all__ = ["width"]

_ACCESSES: Final = (
    "LD LDG LDS LDL LDC ULDC LDCU ST STG STS STL ATOM ATOMG ATOMS RED REDG REDAS STAS SYNCS LDGMC"
)
_LOADS_AND_STORES: Final = frozenset(_ACCESSES.split())
_BITS: Final = {"64": 2, "128": 4, "256": 8}
_SHAPE: Final = re.compile(r"64x(\d+)x\d+")
_TIMES: Final = re.compile(r"x(\d+)")
# Registers of a 16-lane shape of tensor memory, for each of its repetitions; 32-lane shapes have 1.
_LANES: Final = {"16dp128bit": 2, "16dp256bit": 4}


def width(instruction: Instruction, operand: int) -> int:
    """Registers that operand number `operand` stands for, where it is a register and no address."""
    text = instruction.operands[operand]
    if ".F32x2" in text or text.endswith((".64", ".64.reuse")):
        return 2
    modifiers = instruction.opcode.split(".")[1:]
    rule = _RULES.get(instruction.name, _any)
    return rule(instruction, operand, modifiers)


def _any(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    name = instruction.name
    if name in _LOADS_AND_STORES:
        return max((_BITS.get(modifier, 1) for modifier in modifiers), default=1)
    if name.startswith("D") and name in ("DADD", "DMUL", "DFMA", "DMNMX", "DSETP"):
        return 2
    if "64" in modifiers and name not in ("LDSM", "STSM"):
        return 2
    if "WIDE" in modifiers:  # IMAD: the product and the addend
        return 2 if operand == 0 or operand == len(instruction.operands) - 1 else 1
    return 1


def _packed(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    """FADD2 and the like; an operand that is one float for both says so."""
    return 1 if instruction.operands[operand].removesuffix(".reuse").endswith(".F32") else 2


def _high(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    if "HI" in modifiers:  # the addend has the low half, too
        return 2 if operand == len(instruction.operands) - 1 else 1
    return _any(instruction, operand, modifiers)


def _conversion(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    """I2F.F64.S64, F2F.F32.F64: of two types named, the first is the result's."""
    types = [modifier for modifier in modifiers if modifier[:1] in ("F", "S", "U")]
    wide = [modifier in ("F64", "S64", "U64") for modifier in types]
    integer = "S64" in modifiers or "U64" in modifiers
    double = "F64" in modifiers
    if instruction.name == "F2F":
        return 2 if (wide[:1] if operand == 0 else wide[1:2]) == [True] else 1
    result, source = (double, integer) if instruction.name == "I2F" else (integer, double)
    return 2 if (result if operand == 0 else source) else 1


def _matrix_load(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    return int(modifiers[-1]) if modifiers and modifiers[-1] in ("2", "4") else 1


def _tensor_memory(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    times = next((int(match[1]) for m in modifiers if (match := _TIMES.fullmatch(m))), 1)
    each = next((_LANES[lanes] for m in modifiers for lanes in _LANES if m.startswith(lanes)), 1)
    return times * each


def _mma(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    """mma.sync: D, A, B, C of a warp, 32 lanes with 32 bits each."""
    shape = modifiers[0] if modifiers else ""
    half = "F16" in modifiers and "F32" not in modifiers
    if shape in ("16816", "16832", "16864", "168128", "168256"):
        a, b = (2, 1) if (instruction.name, shape) == ("IMMA", "16816") else (4, 2)
    elif shape == "1688" and "TF32" in modifiers:
        a, b = 4, 2
    elif shape in ("1688", "1684"):
        a, b = 2, 1
    elif instruction.name == "DMMA":
        a, b = 2, 2
    else:
        a, b = 4, 2
    if shape in ("8816", "8832"):
        return (2, 1, 1, 2)[min(operand, 3)]
    d = 2 if half else 4
    return (d, a, b, d)[operand] if operand < 4 else 1


def _warp_group_mma(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    """wgmma: 64 x N accumulators of 128 lanes; A, if in registers, is 64 x 256 bits."""
    shape = next((match for m in modifiers if (match := _SHAPE.fullmatch(m))), None)
    columns = int(shape[1]) if shape else 8
    halves = "F16" in modifiers and "F32" not in modifiers
    accumulators = columns // (4 if halves else 2)
    return 4 if operand == 1 else accumulators


def _wide(instruction: Instruction, operand: int, modifiers: Sequence[str]) -> int:
    return 1 if "32" in modifiers else 2


_Rule = Callable[[Instruction, int, Sequence[str]], int]
_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(("FADD2", "FMUL2", "FFMA2"), _packed),
    **dict.fromkeys(("I2F", "F2I", "F2F", "FRND"), _conversion),
    **dict.fromkeys(("LDSM", "STSM"), _matrix_load),
    **dict.fromkeys(("LDTM", "STTM"), _tensor_memory),
    **dict.fromkeys(("HMMA", "IMMA", "QMMA", "OMMA", "DMMA", "BMMA"), _mma),
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), _warp_group_mma),
    **dict.fromkeys(("CS2R", "RET", "BRX", "BRXU", "JMX", "JMXU", "CALL"), _wide),
    "IMAD": _high,
}
