"""The header of a profile: the recording, the device, and the program around the kernels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from profscope.analysis.kernels.devices import peak_of
from profscope.analysis.kernels.hanging import hang_texts
from profscope.analysis.model.numbers import entry_of, known_number
from profscope.analysis.overhead import budget_line
from profscope.analysis.program.gpu_gaps import gpu_gaps
from profscope.analysis.program.gpu_time import gpu_time
from profscope.analysis.program.host_scopes import host_scopes
from profscope.analysis.spans.corrections import are_corrected, record_cost
from profscope.options import Options
from profscope.schema import Tables

__all__ = ["Header", "Program", "header_of", "peaks_of", "program_of"]

_VERSIONS: Final = ("profscope", "triton", "torch", "python")
_MEASURES: Final = ("latency", "issue")
_MOST_SCOPES: Final = 3
_MOST_OTHERS: Final = 5


@dataclass(frozen=True)
class Peaks:
    """The peaks of the device. source: who says so."""

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
    """The recording: kernels, machine, options, losses.

    command: of `profscope run`. options: those of the session that were set. measure: the end of spans on
    loads, "issue" or "latency". corrected: whether times of scopes are without recording cost. kernels:
    names; colder_launches: those right after memory for records was zeroed. samples: of the hardware, over
    all binaries. overhead: of recording, if it had a budget. hangs: launches that did not end, a text of
    several lines each.
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
    hangs: tuple[str, ...]
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
    """Other work on the GPU: a kernel that is not Triton's, a copy, a collective."""

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


def header_of(tables: Tables) -> Header:
    """The facts about all launches of the tables."""
    launches, metadata = tables.launches, tables.metadata
    return Header(
        tool=str(metadata.get("tool") or "") or None,
        backend=str(metadata.get("backend") or ""),
        command=_command(metadata.get("program")),
        versions={name: str(metadata[name]) for name in _VERSIONS if metadata.get(name)},
        options=Options.not_default(metadata.get("options") or {}),
        device=_device(tables),
        measure=_measure(metadata),
        corrected=len(tables.df) > 0 and are_corrected(tables),
        kernels=int(launches["kernel"].nunique()),
        ranks=int(launches["rank"].nunique()),
        launches=len(launches),
        colder_launches=int(launches["cold"].sum()),
        ctas=int(launches["ctas"].sum()),
        spans=len(tables.df),
        samples=0 if tables.emulated else int(tables.samples["samples"].sum()),
        records=int(launches["records"].sum()),
        dropped=int(launches["dropped"].sum()),
        profile_bytes=int(launches["profile_bytes"].sum()),
        overhead=budget_line(metadata) or None,
        hangs=tuple(hang_texts(tables)),
        notes=tuple(str(note) for note in metadata.get("notes") or ()),
    )


def _command(program: object) -> str | None:
    """As one would type it; None if another tool says something else of its program."""
    words = program.get("command") if isinstance(program, dict) else None
    return shlex.join(map(str, words)) if isinstance(words, list) and words else None


def _measure(metadata: Mapping[str, Any]) -> str | None:
    """What loads were measured to: "latency" if those of any kernel were to their data."""
    measured = {about.get("measure") or "" for about in (metadata.get("kernels") or {}).values()}
    return next((measure for measure in _MEASURES if measure in measured), None)


def _device(tables: Tables) -> Device:
    device = tables.metadata.get("device")
    told = device if isinstance(device, dict) else {}
    count = told.get("sm_count")
    timed = tables.launches.iloc[:0] if tables.emulated else tables.launches
    clocks, uncertainty = timed["clock_ghz"].dropna(), timed["ns_uncertainty"].dropna()
    cost = record_cost(tables.metadata)
    return Device(
        name=str(told.get("name") or "") or None,
        arch=str(told.get("arch") or "") or None,
        sm_count=count if isinstance(count, int) and count > 0 else None,
        min_clock_ghz=known_number(clocks.min()),
        max_clock_ghz=known_number(clocks.max()),
        time_uncertainty_ns=known_number(uncertainty.max()),
        clock_read_cycles=None if cost is None else known_number(cost.read),
        row_store_cycles=None if cost is None else known_number(cost.row),
        peaks=peaks_of(tables.metadata),
    )


def peaks_of(metadata: Mapping[str, Any]) -> Peaks | None:
    """None if those of the device are not known."""
    peak = peak_of(metadata)
    if peak is None:
        return None
    of_8, of_16, of_32 = (known_number(peak.tflop_per_s.get(bits)) for bits in (8, 16, 32))
    return Peaks(known_number(peak.memory_gb_per_s), of_8, of_16, of_32, peak.source)


def program_of(tables: Tables, total: float) -> Program:
    """Work on the GPUs, and the longest scopes of the host. total: of all launches."""
    on_gpu, triton = gpu_time(tables), None
    share = on_gpu.attrs["triton_share"]
    if share is not None:
        triton = int(on_gpu.loc[on_gpu["what"] == "Triton", "total_ns"].sum())
    others = on_gpu[on_gpu["what"] != "Triton"].nlargest(_MOST_OTHERS, "total_ns")
    gpus = gpu_gaps(tables).attrs["devices"]
    longest = host_scopes(tables).nlargest(_MOST_SCOPES, "total_ns")
    return Program(
        total=total,
        gpus=tuple(
            GpuTime(rank, device, gpu["busy_ns"], gpu["idle_ns"]) for (rank, device), gpu in gpus.items()
        ),
        triton_share=known_number(share),
        triton_ns=triton,
        scopes=tuple(entry_of(HostScope, row) for row in longest.to_dict("records")),
        others=tuple(entry_of(OtherKernel, row) for row in others.to_dict("records")),
    )
