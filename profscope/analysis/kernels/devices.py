"""The peaks and pipes of a device, and the number of a kernel's CTAs that fit on one of its SMs.

Pipes as Nsight Compute names them (NVIDIA, "Kernel Profiling Guide", Pipelines). The table of opcodes agrees
with the counters of each pipe of an H200 (tests/analysis/test_limits.py); other architectures divide a few
opcodes otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from profscope.analysis.variants import variant_entry
from profscope.emulator.costs import ptx_slots

__all__ = ["PIPES", "Peak", "max_resident_ctas", "peak_of", "pipe_of", "slots_of", "sm_count_of"]


@dataclass(frozen=True)
class Peak:
    """source: where the figures stand. memory_gb_per_s: of its DRAM, in 1e9 bytes a second. tflop_per_s:
    dense tensor-core rates in 1e12 a second, by bits of the operands: 8, 16 and, for tf32, 32."""

    source: str
    memory_gb_per_s: float
    tflop_per_s: Mapping[int, float]


_HOPPER: Final = {8: 1978.9, 16: 989.4, 32: 494.7}
_AMPERE: Final = {8: 624.0, 16: 312.0, 32: 156.0}
# NVIDIA's data sheets give rates with sparsity; these are half of them. Names as CUDA gives them.
_PEAKS: Final = {
    "NVIDIA H200": Peak("NVIDIA H200 data sheet, SXM", 4800.0, _HOPPER),
    "NVIDIA H100 80GB HBM3": Peak("NVIDIA H100 data sheet, SXM", 3350.0, _HOPPER),
    "NVIDIA H100 PCIe": Peak(
        "NVIDIA H100 data sheet, PCIe", 2000.0, {8: 1513.0, 16: 756.5, 32: 378.0}
    ),
    "NVIDIA A100-SXM4-80GB": Peak("NVIDIA A100 data sheet, SXM 80 GB", 2039.0, _AMPERE),
    "NVIDIA A100-SXM4-40GB": Peak("NVIDIA A100 data sheet, SXM 40 GB", 1555.0, _AMPERE),
    "NVIDIA A100 80GB PCIe": Peak("NVIDIA A100 data sheet, PCIe 80 GB", 1935.0, _AMPERE),
    "NVIDIA L40S": Peak("NVIDIA L40S data sheet", 864.0, {8: 733.0, 16: 362.0, 32: 183.0}),
}  # fmt: skip


def peak_of(metadata: Mapping[str, Any]) -> Peak | None:
    """The peaks of the device that a profile was taken on: of the table, else as measured before the session
    (`profscope doctor --measure`); None if neither has them."""
    device = metadata.get("device")
    if not isinstance(device, Mapping):
        return None
    return _PEAKS.get(str(device.get("name", ""))) or _measured(device.get("peaks"))


def _measured(peaks: Any) -> Peak | None:
    """peaks: as `Peaks` of `device.gpus`."""
    if not isinstance(peaks, Mapping):
        return None
    dram, dot = peaks.get("dram_gb_s"), peaks.get("dot_fp16_tflops")
    if not (_is_rate(dram) and _is_rate(dot)):
        return None
    return Peak("measured on this GPU", dram, {16: dot})


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def sm_count_of(metadata: Mapping[str, Any]) -> int:
    """SMs of the device that a profile was taken on; 0 if unknown."""
    device = metadata.get("device")
    told = device.get("sm_count") if isinstance(device, Mapping) else None
    return told if isinstance(told, int) and told > 0 else 0


def max_resident_ctas(metadata: Mapping[str, Any], kernel: str, variant: int) -> int:
    """CTAs of the recorded binary that fit on an SM; the largest number if there are several; 0 if unknown.

    A GPU's profile holds the number. The emulator's follows from its model, which has no registers.
    """
    configuration = variant_entry(metadata, kernel, variant)
    device = metadata.get("device")
    model = device if metadata.get("backend") == "emulator" and isinstance(device, dict) else {}
    warps = configuration.get("num_warps")
    return max(
        (
            _positive(build.get("ctas_per_sm")) or _by_model(model, warps, build.get("shared_bytes"))
            for build in configuration.get("builds") or ()
            if build.get("build") == "instrumented"
        ),
        default=0,
    )


def _by_model(model: Mapping[str, Any], warps: Any, shared_bytes: Any) -> int:
    most_warps, most_ctas, most_shared = (
        _positive(model.get(name)) for name in ("warps_per_sm", "ctas_per_sm", "shared_bytes_per_sm")
    )
    if not (most_warps and most_ctas and most_shared and _positive(warps)):
        return 0
    from profscope.emulator.device import Model  # for the emulator's profiles alone

    limits = Model(warps_per_sm=most_warps, ctas_per_sm=most_ctas, shared_bytes_per_sm=most_shared)
    return limits.slots_per_sm(warps, _positive(shared_bytes))


def _positive(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


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
    """Its instructions in each pipe: one for SASS, for PTX those that ptxas makes of it."""
    return ptx_slots(opcode) if opcode[:1].islower() else {pipe_of(opcode): 1}
