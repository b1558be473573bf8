"""What a device can do at most, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Peak", "peak_of", "sm_count_of"]


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
    """The peaks of the device that a profile was taken on; None for one that is not in the table."""
    device = metadata.get("device")
    return _PEAKS.get(str(device.get("name", ""))) if isinstance(device, Mapping) else None


def sm_count_of(metadata: Mapping[str, Any]) -> int:
    """SMs of the device that a profile was taken on; 0 where nobody says."""
    device = metadata.get("device")
    told = device.get("sm_count") if isinstance(device, Mapping) else None
    return told if isinstance(told, int) and told > 0 else 0
