"""The instructions that nvdisasm prints of a cubin.

/*0010*/              @P0 LDG.E R2, [R4.64] ;          /* 0x0000000404020981 */
                                                       /* 0x000ea2000c1e1900 */
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from profscope.instrument_passes.errors import ToolchainError

__all__ = [
    "CLASSES",
    "SIZE",
    "Flow",
    "Instruction",
    "Listing",
    "blocks_of",
    "class_of",
    "flow_of",
    "read_line_tables",
    "read_listing",
    "split",
]

SIZE: Final = 16
"""Bytes of an instruction, from Volta on."""

_PLACE: Final = re.compile(r'\t//## File "(?P<file>.*?)", line (?P<line>\d+)')
_PTX: Final = ".nv_debug_ptx_txt"  # in the place of a file: the PTX that the cubin holds
_ADDED: Final = "$__internal_"  # by ptxas, such as $__internal_0_$__cuda_sm20_rem_s64
_LABEL: Final = re.compile(r"(?P<label>[.$\w]\S*):$")
_INSTRUCTION: Final = re.compile(
    r"\s+/\*(?P<pc>[0-9a-f]{4,})\*/\s+(?P<sass>.*?)\s*;\s*(?:/\* 0x(?P<low>[0-9a-f]{16}) \*/)?\s*$"
)
_UPPER: Final = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
_SECTION: Final = re.compile(r"\t\.section\t\.text\.")
_GUARD: Final = re.compile(r"@(!?U?P[0-7T])\s+")
# The targets of an indirect branch, which nvdisasm finds by its own analysis.
_BRANCH_TARGETS: Final = re.compile(r'\s*\(\*"BRANCH_TARGETS\s+(.*?)"\*\)')
_REFERENCE: Final = re.compile(r"`\((.*?)\)")
_NAMES_TARGET: Final = frozenset({"BRA", "JMP", "CALL", "WARPSYNC"})  # those that name where they lead
_PC: Final = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """pc: bytes from the function's start. guard: the predicate that it runs under, "!P0"; "" if always.

    opcode: with its modifiers. operands: as they are printed, but labels as pcs in hexadecimal, as cuobjdump
    has them. encoding: its 128 bits, None if not printed. targets: the pcs that a branch or call may lead to,
    as far as nvdisasm knows them.
    """

    pc: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    encoding: int | None = None
    targets: tuple[int, ...] = ()

    @property
    def sass(self) -> str:
        """The instruction as text, with one space between its parts."""
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True)
class Listing:
    """The instructions of a kernel and of the functions in its section, in order, and the pcs that have a
    label. added: of each function that ptxas has added, as for a division, where it begins and ends."""

    instructions: tuple[Instruction, ...]
    labelled: tuple[int, ...] = ()
    added: tuple[range, ...] = ()


def read_listing(text: str) -> Listing:
    """Read what `nvdisasm -c -hex` prints.

    Raises ToolchainError if there is no instruction, or code of more than one kernel.
    """
    if len(_SECTION.findall(text)) > 1:
        raise ToolchainError("the cubin holds several kernels; one is expected, as Triton makes them")
    found: list[tuple[int, str, int | None]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if label := _LABEL.match(line):
            waiting.append(label["label"])
        elif match := _INSTRUCTION.match(line):
            upper = _UPPER.match(next(lines, "")) if match["low"] else None
            pc = int(match["pc"], 16)
            found.append((pc, match["sass"], int(upper[1] + match["low"], 16) if upper else None))
            labels |= dict.fromkeys(waiting, pc)
            waiting = []
    if not found:
        raise ToolchainError("the cubin holds no instructions")
    instructions = tuple(split(pc, sass, encoding, labels) for pc, sass, encoding in found)
    local = sorted({pc for label, pc in labels.items() if label.startswith(".L")})
    functions = sorted({pc for label, pc in labels.items() if not label.startswith(".")})
    ends = dict(pairwise([*functions, instructions[-1].pc + SIZE]))
    begins = sorted(pc for label, pc in labels.items() if label.startswith(_ADDED))
    return Listing(instructions, tuple(local), tuple(range(pc, ends[pc], SIZE) for pc in begins))


def split(
    pc: int, sass: str, encoding: int | None = None, labels: Mapping[str, int] = MappingProxyType({})
) -> Instruction:
    """An instruction from its text, such as "@P0 LDG.E R2, [R4.64]"; labels: the pcs of labels in it."""
    targets: list[int] = []
    if indirect := _BRANCH_TARGETS.search(sass):
        targets += [labels[label] for label in indirect[1].split(",") if label in labels]
        sass = sass[: indirect.start()]
    sass = _REFERENCE.sub(lambda match: f"{labels[match[1]]:#x}" if match[1] in labels else match[0], sass)
    guard = _GUARD.match(sass)
    opcode, _, rest = sass[guard.end() if guard else 0 :].strip().partition(" ")
    operands = tuple(part.strip() for part in rest.split(",")) if rest.strip() else ()
    if opcode.partition(".")[0] in _NAMES_TARGET:
        targets += [int(operand, 16) for operand in operands if _PC.fullmatch(operand)]
    return Instruction(pc, guard[1] if guard else "", opcode, operands, encoding, tuple(targets))


def read_line_tables(text: str) -> tuple[dict[int, tuple[str, int]], dict[int, int]]:
    """By pc, the file and line of the source, and the line of the PTX, that `nvdisasm -g -gp` gives.

    Instructions without one are left out.
    """
    source: dict[int, tuple[str, int]] = {}
    ptx: dict[int, int] = {}
    place: tuple[str, int] | None = None
    ptx_line = 0
    for line in text.splitlines():
        if match := _PLACE.match(line):
            if match["file"] == _PTX:
                ptx_line = int(match["line"])
            else:
                place = match["file"], int(match["line"])
        elif instruction := _INSTRUCTION.match(line):
            pc = int(instruction["pc"], 16)
            if place is not None:
                source[pc] = place
            if ptx_line:
                ptx[pc] = ptx_line
    return source, ptx


# The class of an instruction, by its opcode.
#
# Meanings of opcodes: NVIDIA, "CUDA Binary Utilities", instruction set references of Ampere, Hopper and
# Blackwell.

CLASSES: Final[Mapping[str, str]] = {
    "global load": "LD LDG LDGMC TEX TLD SULD",
    "global store": "ST STG SUST",
    "shared load": "LDS LDSM",
    "shared store": "STS STSM STAS",
    "local load": "LDL",
    "local store": "STL",
    "constant load": "LDC LDCU ULDC",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS SURED",
    "async copy": "LDGSTS LDGDEPBAR",
    "tma": "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED UBLKPF",
    "mma": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCOMMA UTCIMMA UTCMXQMMA",
    "tensor memory": "LDTM STTM UTCCP UTCSHIFT UTCATOMSWS UVIRTCOUNT",
    "barrier": """
        BAR DEPBAR WARPGROUP WARPGROUPSET WARPSYNC SYNCS SYNCSU UTCBAR MEMBAR FENCE ERRBAR CGAERRBAR
        ARRIVES UCGABAR_ARV UCGABAR_WAIT CCTL CCTLL CCTLT ACQBULK PREEXIT NANOSLEEP YIELD
    """,
    "special function": "MUFU",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND",
    "float": """
        FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FFMA FFMA2 FFMA32I FHADD FHFMA FMNMX FMNMX3 FSEL FSET
        FSWZADD FCHK DADD DMUL DFMA DMNMX HADD2 HADD2_32I HMUL2 HMUL2_32I HFMA2 HFMA2_32I HMNMX2 HSET2
        UFADD UFMUL UFFMA UFSEL UFMNMX
    """,
    "integer": """
        IADD IADD3 IADD32I IMAD IMUL IMUL32I IABS IMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 IDP IDP4A IDP2A
        LEA LOP LOP3 LOP32I SHF SHL SHR SGXT BMSK BREV FLO POPC VABSDIFF VABSDIFF4 VHMNMX SEL PRMT
    """,
    "move": """
        MOV MOV32I MOVM S2R CS2R S2UR CS2UR B2R R2B BMOV R2UR GETLMEMBASE SETLMEMBASE LEPC
    """,
    "predicate": """
        ISETP FSETP DSETP HSETP2 PSETP PLOP3 CSETP UISETP UFSETP UPSETP UPLOP3 P2R R2P UP2UR UR2UP
    """,
    "uniform": """
        UMOV UIADD3 UIMAD ULEA ULOP ULOP3 USHF USHL USHR USEL USGXT UBMSK UBREV UFLO UPOPC UPRMT UP2R
        UVIADD UVIMNMX UIABS UIMNMX UF2FP UI2FP UI2F UF2I UF2F USTGR UCLEA USETMAXREG USETSHMSZ
    """,
    "warp exchange": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "control": """
        BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BPT KILL RTT PMTRIG NOP WARPEXIT RPCMOV
        ENDCOLLECTIVE
    """,
}
"""Class -> the opcodes in it, without modifiers. What is in none is "other"."""

_CLASS: Final = {name: cls for cls, names in CLASSES.items() for name in names.split()}


def class_of(name: str) -> str:
    """The class of an opcode without modifiers, "other" where the table has no row for it."""
    return _CLASS.get(name, "other")


# Which instructions may run after an instruction: branches, calls and returns of a function.


Flow = Sequence[tuple[int, ...]]
"""By instruction, the numbers of those that may run next."""

_BRANCHES: Final = frozenset({"BRA", "JMP"})
_INDIRECT: Final = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_ENDS: Final = frozenset({"EXIT", "KILL", "WARPEXIT"})


def flow_of(listing: Listing) -> tuple[Flow, list[str]]:
    """The flow of a listing, and notes on unknowns.

    An indirect branch whose targets nvdisasm does not name leads to every label that nothing else leads to; a
    note says so. A return leads behind every call of its function.
    """
    instructions = listing.instructions
    number = {instruction.pc: at for at, instruction in enumerate(instructions)}
    targets = [tuple(number[pc] for pc in each.targets if pc in number) for each in instructions]
    after: list[tuple[int, ...]] = []
    unknown: list[int] = []
    for at, instruction in enumerate(instructions):
        falls = (at + 1,) if _falls_through(instruction) and at + 1 < len(instructions) else ()
        if instruction.name in _INDIRECT and not targets[at]:
            unknown.append(at)
        if instruction.name == "CALL" and targets[at] and not instruction.guard:
            falls = ()  # it comes back by the callee's return
        after.append(tuple(dict.fromkeys((*falls, *targets[at]))))
    _add_returns(instructions, targets, after)
    notes = []
    if unknown:
        led_to = {target for each in targets for target in each}
        others = sorted({number[pc] for pc in listing.labelled} - led_to)
        for at in unknown:
            after[at] = (*after[at], *others)
        pcs = ", ".join(f"{instructions[at].pc:#x}" for at in unknown)
        notes.append(f"targets of the indirect branch at {pcs} are not known; taken: labels without a branch")
    return after, notes


def blocks_of(flow: Flow) -> list[range]:
    """The basic blocks, in order: runs of instructions that branches enter only at the first."""
    starts = {0, len(flow)}
    for at, following in enumerate(flow):
        if following != (at + 1,):
            starts.add(at + 1)
            starts.update(following)
    ordered = sorted(starts)
    return [range(first, last) for first, last in pairwise(ordered)]


def _falls_through(instruction: Instruction) -> bool:
    if instruction.guard not in ("", "PT", "UPT"):
        return True
    if instruction.name in _BRANCHES:  # BRA P0, `(.L_x_1): one more condition
        return "DIV" in instruction.opcode or len(instruction.operands) > 1
    return instruction.name not in (*_INDIRECT, *_ENDS, "RET")


def _add_returns(
    instructions: Sequence[Instruction], targets: Sequence[tuple[int, ...]], after: list[tuple[int, ...]]
) -> None:
    calls: dict[int, list[int]] = {}
    for at, instruction in enumerate(instructions):
        if instruction.name == "CALL":
            for target in targets[at]:
                calls.setdefault(target, []).append(at)
    for entry, callers in calls.items():
        behind = tuple(at + 1 for at in callers if at + 1 < len(instructions))
        for at in _returns(entry, instructions, after, targets):
            after[at] = tuple(dict.fromkeys((*after[at], *behind)))


def _returns(
    entry: int,
    instructions: Sequence[Instruction],
    after: Sequence[tuple[int, ...]],
    targets: Sequence[tuple[int, ...]],
) -> list[int]:
    """The returns that are reached from a function's entry; calls in it are stepped over."""
    seen, waiting, returns = {entry}, [entry], []
    while waiting:
        at = waiting.pop()
        if instructions[at].name == "RET":
            returns.append(at)
            following: tuple[int, ...] = (at + 1,) if instructions[at].guard else ()
        else:
            following = (at + 1,) if instructions[at].name == "CALL" and targets[at] else after[at]
        for each in following:
            if each < len(instructions) and each not in seen:
                seen.add(each)
                waiting.append(each)
    return returns
