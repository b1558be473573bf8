"""Occupancy: CTAs of a kernel that fit on an SM of an NVIDIA GPU, or on a CU of an AMD GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CuLimits", "SmLimits", "limits_of"]

# A warp's registers come in units of 256, its share of an SM's registers in units of four warps; every CTA
# takes 1 KiB of shared memory for the system (CUDA C++ Programming Guide, "Shared Memory", and the occupancy
# calculator).
_REGISTERS: Final = 65536  # of an SM, on all of them
_REGISTER_UNIT: Final = 256
_WARP_UNIT: Final = 4
_RESERVED_SHARED: Final = 1 << 10
_LANES: Final = 32


@dataclass(frozen=True)
class SmLimits:
    """The capacity of one SM: warps and CTAs at once, bytes of shared memory."""

    warps: int
    ctas: int
    shared_bytes: int

    def fit(self, warps: int, registers: int, shared_bytes: int) -> int:
        """CTAs of `warps` warps, `registers` a thread and `shared_bytes` that it holds; 0 if none fits."""
        per_warp = -(-registers * _LANES // _REGISTER_UNIT) * _REGISTER_UNIT
        warps_by_registers = _REGISTERS // max(1, per_warp) // _WARP_UNIT * _WARP_UNIT
        by_shared = self.shared_bytes // (shared_bytes + _RESERVED_SHARED)
        return min(self.ctas, self.warps // warps, warps_by_registers // warps, by_shared)


# LLVM's AMDGPUBaseInfo for gfx90a and later: four SIMDs a CU, each with 512 vector registers, accumulation
# registers among them, in units of eight for each of at most eight waves; sixteen CTAs of several waves.
_SIMDS: Final = 4
_WAVES: Final = 8
_VECTOR_REGISTERS: Final = 512
_VECTOR_UNIT: Final = 8
_CTAS: Final = 16


@dataclass(frozen=True)
class CuLimits:
    """The LDS of one CU: bytes, and the unit in which CTAs get them."""

    shared_bytes: int
    shared_unit: int

    @property
    def warps(self) -> int:
        return _SIMDS * _WAVES

    def fit(self, warps: int, registers: int, shared_bytes: int) -> int:
        """As SmLimits.fit; registers: vector registers of a thread, accumulation registers included."""
        taken = max(_VECTOR_UNIT, -(-registers // _VECTOR_UNIT) * _VECTOR_UNIT)
        by_registers = _SIMDS * min(_WAVES, _VECTOR_REGISTERS // taken) // warps
        by_ctas = _CTAS if warps > 1 else self.warps
        if not shared_bytes:
            return min(by_ctas, by_registers)
        taken_shared = -(-shared_bytes // self.shared_unit) * self.shared_unit
        return min(by_ctas, by_registers, self.shared_bytes // taken_shared)


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; LLVM's AMDGPUBaseInfo.
_LIMITS: Final[dict[str, SmLimits | CuLimits]] = {
    "cuda:80": SmLimits(64, 32, 164 << 10),
    "cuda:86": SmLimits(48, 16, 100 << 10),
    "cuda:87": SmLimits(48, 16, 164 << 10),
    "cuda:89": SmLimits(48, 24, 100 << 10),
    "cuda:90": SmLimits(64, 32, 228 << 10),
    "cuda:100": SmLimits(64, 32, 228 << 10),
    "cuda:103": SmLimits(64, 32, 228 << 10),
    "cuda:120": SmLimits(48, 24, 100 << 10),
    "hip:gfx942": CuLimits(64 << 10, 512),
    "hip:gfx950": CuLimits(160 << 10, 1280),
}


def limits_of(target: str) -> SmLimits | CuLimits | None:
    """The limits of a target, named as in `ttg.target`; None for one that is not in the table."""
    return _LIMITS.get(target)
