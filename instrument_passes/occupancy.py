"""How many CTAs of a kernel fit on an SM of an NVIDIA GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Limits", "ctas_per_sm", "limits_of"]


@dataclass(frozen=True)
class Limits:
    """What one SM has: warps and CTAs at once, bytes of shared memory."""

    warps: int
    ctas: int
    shared_bytes: int


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_LIMITS: Final = {
    80: Limits(64, 32, 164 << 10),
    86: Limits(48, 16, 100 << 10),
    87: Limits(48, 16, 164 << 10),
    89: Limits(48, 24, 100 << 10),
    90: Limits(64, 32, 228 << 10),
    100: Limits(64, 32, 228 << 10),
    103: Limits(64, 32, 228 << 10),
    120: Limits(48, 24, 100 << 10),
}
_REGISTERS: Final = 65536  # of an SM, on all of them
# A warp's registers come in units of 256, its share of an SM's registers in units of four warps; every CTA
# takes 1 KiB of shared memory for the system (same source, "Shared Memory", and the occupancy calculator).
_REGISTER_UNIT: Final = 256
_WARP_UNIT: Final = 4
_RESERVED_SHARED: Final = 1 << 10
_LANES: Final = 32


def limits_of(capability: int) -> Limits | None:
    """The limits of a compute capability (90 is 9.0); None for one that is not in the table."""
    return _LIMITS.get(capability)


def ctas_per_sm(limits: Limits, warps: int, registers: int, shared_bytes: int) -> int:
    """CTAs of `warps` warps, `registers` a thread and `shared_bytes` that an SM holds; 0 if none fits."""
    per_warp = -(-registers * _LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    warps_by_registers = _REGISTERS // max(1, per_warp) // _WARP_UNIT * _WARP_UNIT
    by_shared = limits.shared_bytes // (shared_bytes + _RESERVED_SHARED)
    return min(limits.ctas, limits.warps // warps, warps_by_registers // warps, by_shared)
