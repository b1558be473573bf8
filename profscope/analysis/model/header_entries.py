"""The model's entries on the session, the GPU, and the program around the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Device", "GpuTime", "Header", "HostScope", "OtherKernel", "Peaks", "Program"]


@dataclass(frozen=True)
class Peaks:
    """What the device can do at most. source: who says so."""

    memory_gb_per_s: float | None
    tensor_8bit_tflop_per_s: float | None
    tensor_16bit_tflop_per_s: float | None
    tensor_32bit_tflop_per_s: float | None
    source: str


@dataclass(frozen=True)
class Device:
    """The GPU. Clocks: of its SMs against the globaltimer, as the CTAs read both."""

    name: str | None
    arch: str | None
    sm_count: int | None
    min_clock_ghz: float | None
    max_clock_ghz: float | None
    time_uncertainty_ns: float | None
    clock_read_cycles: float | None
    row_store_cycles: float | None
    peaks: Peaks | None


@dataclass(frozen=True)
class Header:
    """What was recorded, with what, and what was lost.

    command: what `profscope run` ran. options: those of the session that were set. measure: what spans on
    loads end with, "issue" or "latency". corrected: whether times of scopes are without what recording took.
    kernels: names; colder_launches: those right after memory for records was zeroed. samples: of the
    hardware, over all binaries. overhead: what recording added, if it had a budget. values: what is wrong in
    probed tensors.
    """

    tool: str | None
    backend: str
    command: str | None
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    device: Device
    measure: str | None
    corrected: bool
    kernels: int
    ranks: int
    launches: int
    colder_launches: int
    ctas: int
    spans: int
    samples: int
    records: int
    dropped: int
    profile_bytes: int
    overhead: str | None
    values: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class GpuTime:
    """A GPU between its first and its last event."""

    rank: int
    device: int
    busy_ns: int
    idle_ns: int


@dataclass(frozen=True)
class HostScope:
    """A scope of the host's code, with those inside."""

    path: str
    count: int
    mean_ns: float
    total_ns: int
    launches_each: float


@dataclass(frozen=True)
class OtherKernel:
    """What else ran on the GPU: a kernel that is not Triton's, a copy, a collective."""

    what: str
    name: str
    count: int
    total_ns: int
    share: float


@dataclass(frozen=True)
class Program:
    """The program around the kernels. total: of all recorded launches; triton_share: of GPU time. scopes,
    others: the longest."""

    total: float
    gpus: tuple[GpuTime, ...]
    triton_share: float | None
    triton_ns: int | None
    scopes: tuple[HostScope, ...]
    others: tuple[OtherKernel, ...]
