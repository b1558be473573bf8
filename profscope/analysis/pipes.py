"""Which pipe of an SM executes an instruction, by its opcode.

Pipes as Nsight Compute names them (NVIDIA, "Kernel Profiling Guide", Pipelines). The table agrees with the
counters of each pipe of an H200 (tests/analysis/test_pipes.py); other architectures divide a few opcodes
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profscope.emulator.costs import ptx_slots

__all__ = ["PIPES", "pipe_of", "slots_of"]

PIPES: Final = ("fma", "alu", "fp64", "xu", "lsu")
"""Those that have a counter of their own, and an instruction takes one slot of."""

_OPCODES: Final[Mapping[str, str]] = {
    "fma": """
        FFMA FFMA2 FFMA32I FMUL FMUL2 FMUL32I FADD FADD2 FADD32I IMAD IMUL IDP IDP4A IDP2A VIADD HFMA2 HADD2
        HMUL2
    """,
    "alu": """
        IADD3 IADD IADD32I LOP3 LOP PLOP3 SHF SHL SHR LEA MOV MOV32I SEL FSEL PRMT ISETP FSETP PSETP FSET
        FMNMX FMNMX3 IMNMX VIMNMX VIMNMX3 VIADDMNMX IABS SGXT BMSK P2R R2P F2FP I2FP F2IP I2IP HSETP2
        HSET2 HMNMX2 VABSDIFF VABSDIFF4 FCHK CS2R VOTE
        ELECT
    """,
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "xu": "MUFU I2F F2I F2F FRND I2I POPC FLO BREV",
    "lsu": """
        LD LDG LDS LDL LDSM LDGSTS LDGMC ST STG STS STL STSM STAS ATOM ATOMG ATOMS RED REDG REDAS SHFL MATCH
        LDGDEPBAR MEMBAR CCTL CCTLL FENCE
    """,
    "tensor": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA",
    "tma": "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UBLKCP UBLKRED UBLKPF",
}
_PIPES: Final = {opcode: pipe for pipe, opcodes in _OPCODES.items() for opcode in opcodes.split()}


def pipe_of(opcode: str) -> str:
    """fma, alu, fp64, xu, lsu, tensor or tma; "" for all others: branches, barriers, uniform instructions.

    opcode: with its modifiers, as in the column `opcode`.
    """
    name, _, modifiers = opcode.partition(".")
    if name == "HFMA2" and "MMA" in modifiers:
        return "tensor"
    return _PIPES.get(name, "")


def slots_of(opcode: str) -> Mapping[str, int]:
    """How many instructions of each pipe it is: one of SASS is one, one of PTX what ptxas makes of it."""
    return ptx_slots(opcode) if opcode[:1].islower() else {pipe_of(opcode): 1}
