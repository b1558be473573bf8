"""What an instruction reads and writes: registers, uniform registers, predicates.

Names are those of SASS: "R4", "UR2", "P0", "UP1". The constants RZ, URZ, PT and UPT are none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from instrument_passes.sass.listing import Instruction
from instrument_passes.sass.widths import width

__all__ = ["Access", "access"]

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
    """The names of what is written and read. guarded: written only where the guard holds."""

    writes: frozenset[str]
    reads: frozenset[str]
    guarded: bool


def access(instruction: Instruction) -> Access:
    """What an instruction reads and writes, its guard included."""
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
