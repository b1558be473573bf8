"""The class of an instruction, by its opcode.

Meanings of opcodes: NVIDIA, "CUDA Binary Utilities", instruction set references of Ampere, Hopper and
Blackwell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CLASSES", "class_of"]

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
