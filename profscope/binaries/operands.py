"""The operands of an instruction: registers, uniform registers and predicates that it reads and writes.

Names are those of SASS: "R4", "UR2", "P0", "UP1". The constants RZ, URZ, PT and UPT are none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from profscope.binaries.listing import Instruction

__all__ = ["Access", "access", "width"]

_NAME: Final = re.compile(r"(?<![\w.])(UR|R|UP|P|B)(\d+)(?!\w)(\.64|\.U32)?")
_PREDICATE: Final = re.compile(r"!?U?P(?:[0-6T])")
_REGISTER: Final = re.compile(r"U?R(?:\d+|Z)")
_GLOBAL: Final = "LD LDG ST STG ATOM ATOMG RED REDG LDGSTS CCTL LDGMC"
_ADDRESSES_OF_64_BITS: Final = frozenset(_GLOBAL.split())
_BULK: Final = re.compile(r"(\d)D")
_ALL_PREDICATES: Final = 7

# Instructions whose first operand is no result.
_WITHOUT_RESULT: Final = """
    ST STG STS STL STSM STTM STAS RED REDG REDAS LDGSTS UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL
    UTMACMDFLUSH UBLKCP UBLKRED UBLKPF BAR BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSYNC BREAK WARPSYNC
    NANOSLEEP MEMBAR FENCE ERRBAR CGAERRBAR CCTL CCTLL CCTLT DEPBAR LDGDEPBAR ARRIVES WARPGROUP WARPGROUPSET
    NOP BPT YIELD KILL UTCHMMA UTCQMMA UTCOMMA UTCIMMA UTCMXQMMA UTCBAR UTCCP UTCSHIFT UVIRTCOUNT UCGABAR_ARV
    UCGABAR_WAIT ACQBULK PREEXIT RTT PMTRIG SUST SURED
"""
_NO_RESULT: Final = frozenset(_WITHOUT_RESULT.split())
# Instructions that write the register behind a predicate that they write.
_WITH_PREDICATE: Final = "SHFL ATOM ATOMG ATOMS LOP3 ULOP3 ELECT UTCATOMSWS R2UR MATCH QSPC LD LDG LDS LDL"
_BOTH: Final = frozenset(_WITH_PREDICATE.split())
_COMPARES: Final = re.compile(r"(?:\w*SETP2?|U?PLOP3)$")


@dataclass(frozen=True, slots=True)
class Access:
    """The names of registers written and read. guarded: written only if the guard is true."""

    writes: frozenset[str]
    reads: frozenset[str]
    guarded: bool


def access(instruction: Instruction) -> Access:
    """The operands that an instruction reads and writes, its guard included."""
    if instruction.name == "NOP":
        return Access(frozenset(), frozenset(), False)
    results = _results(instruction)
    writes: set[str] = set()
    reads = {instruction.guard.lstrip("!")} - {"", "PT", "UPT"}
    for at, text in enumerate(instruction.operands):
        (writes if at < results else reads).update(_names(instruction, at, text))
    return Access(frozenset(writes), frozenset(reads), bool(instruction.guard))


def _results(instruction: Instruction) -> int:
    """How many of the first operands are results."""
    name, operands = instruction.name, instruction.operands
    if not operands or name in _NO_RESULT:
        return 0
    if not _is_name(operands[0]):
        return int(operands[0] in ("PR", "UPR") or re.fullmatch(r"B\d+", operands[0]) is not None)
    if _COMPARES.match(name):
        return 2
    second = len(operands) > 1 and _is_name(operands[1])
    if _PREDICATE.fullmatch(operands[0]):
        return 2 if second and name in _BOTH else 1
    results = 1
    if name not in ("P2R", "UP2UR", "SEL", "USEL"):
        while results < min(3, len(operands) - 1) and _PREDICATE.fullmatch(operands[results]):
            results += 1
            if name in ("VOTE", "VOTEU"):
                break
    return results


def _is_name(operand: str) -> bool:
    return _PREDICATE.fullmatch(operand) is not None or _REGISTER.fullmatch(operand) is not None


def _names(instruction: Instruction, at: int, text: str) -> set[str]:
    if text in ("PR", "UPR"):  # all predicates that the mask, the last operand, names
        mask = instruction.operands[-1]
        bits = int(mask, 16) if mask.startswith("0x") else (1 << _ALL_PREDICATES) - 1
        return {f"{text[:-1]}{n}" for n in range(_ALL_PREDICATES) if bits >> n & 1}
    names: set[str] = set()
    for bank, number, size in _NAME.findall(text.partition("`")[0]):  # behind it a symbol
        if bank not in ("R", "UR"):
            names.add(f"{bank}{number}")
            continue
        count = _count(instruction, at, text, bank, size)
        names.update(f"{bank}{n}" for n in range(int(number), int(number) + count))
    return names


def _count(instruction: Instruction, at: int, text: str, bank: str, size: str) -> int:
    """Registers that a name stands for, which may be a part of an address."""
    name = instruction.name
    if text.startswith("gdesc["):  # a descriptor has 64 bits; wgmma has room for A's and B's there
        return 4 if name.endswith("GMMA") else 2
    if text.startswith("desc["):  # desc[UR4][R6.64]: the descriptor, and the address
        return 1 if size == ".U32" else 2
    if text.startswith("cx["):
        return 2
    if text.startswith("["):
        if name.startswith("UTMA") and name not in ("UTMACCTL", "UTMACMDFLUSH"):
            return _bulk(instruction, at)
        if size:
            return 2 if size == ".64" else 1
        wide = name in _ADDRESSES_OF_64_BITS and bank == "R" and (name, at) != ("LDGSTS", 0)
        return 2 if wide or name in ("UTMACCTL", "CCTL") else 1
    if "[" in text:  # c[0x0][R4], tmem[UR4], idesc[UR5]
        return 1
    return 1 if bank == "UR" and name == "UTCBAR" else width(instruction, at)


def _bulk(instruction: Instruction, at: int) -> int:
    """TMA: the address in shared memory, the barrier and the coordinates stand together; the descriptor
    apart."""
    shape = _BULK.search(instruction.opcode)
    coordinates = int(shape[1]) if shape else 1
    if at == 0:
        return coordinates + (2 if instruction.name == "UTMALDG" else 1)
    return 2


# How many registers an operand stands for: R4 of a 128-bit load is R4 to R7.
#
# SASS names the first register only. What follows from the opcode is here; it is compared with the life
# ranges that nvdisasm prints, in the tests.

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
