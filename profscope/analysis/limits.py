"""The limit of a kernel: its use of each resource of the GPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame, refused_evidence
from profscope.analysis.kernels.devices import PIPES, max_resident_ctas, peak_of, slots_of, sm_count_of
from profscope.analysis.kernels.roof_rows import roof_table
from profscope.analysis.overhead import bare_times
from profscope.analysis.spans.ctas import launch_durations
from profscope.analysis.variants import rows_of
from profscope.emulator.costs import tensor_cycles
from profscope.schema import Tables

__all__ = [
    "ATTAINED",
    "BOUND_PCT",
    "LIMITS_DTYPES",
    "ON_EMULATOR",
    "RESOURCES",
    "BareTime",
    "bare_time",
    "being",
    "binding",
    "bound_by",
    "limits",
    "limits_of",
]

BOUND_PCT: Final = 60.0
"""Below this, no resource is said to bind a kernel: Nsight Compute's guide calls it bound by latency."""

LIMITS_DTYPES: Final[Mapping[str, str]] = {
    "kernel": "str",
    "variant": "int32",
    "resource": "str",
    "used": "float64",
    "unit": "str",
    "peak": "float64",
    "peak_pct": "float64",
    "basis": "str",
}

RESOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "dram": ("dram_throughput", "DRAM"),
    "l2": ("l2_throughput", "L2"),
    "l1": ("l1_throughput", "L1"),
    "shared": ("shared_wavefronts", "shared memory"),
    "issue": ("issue_slots", "issue slots"),
    "tensor": ("pipe_tensor", "the tensor pipe"),
    "fma": ("pipe_fma", "the FMA pipe"),
    "alu": ("pipe_alu", "the ALU pipe"),
    "fp64": ("pipe_fp64", "the FP64 pipe"),
    "xu": ("pipe_xu", "the XU pipe"),
    "lsu": ("pipe_lsu", "the LSU pipe"),
}
"""By resource: the counter that says how much of it is used, and its name in a sentence."""


_OF_ALL: Final = {"issue": 4.0, "alu": 2.0, "xu": 0.5, "lsu": 1.0, "shared": 1.0}
_RATES: Final[Mapping[int, Mapping[str, float]]] = {
    80: _OF_ALL | {"fma": 2.0, "fp64": 1.0},
    86: _OF_ALL | {"fma": 4.0, "fp64": 2 / 32},
    89: _OF_ALL | {"fma": 4.0, "fp64": 2 / 32},
    90: _OF_ALL | {"fma": 4.0, "fp64": 2.0},
}
"""By compute capability: how many warp instructions of each pipe and wavefronts of shared memory an SM can do
in a cycle. NVIDIA, "CUDA C++ Programming Guide": 4 warp schedulers, 64 or 128 FP32, 64 INT32, 2, 32 or 64
FP64 lanes, 16 special function units (Compute Capability 8.x, 9.0: Architecture), and 32 lanes of a shuffle
(Throughput of Native Arithmetic Instructions); 128 bytes a cycle of shared memory (whitepapers of A100,
GA102, Ada and H100). Those of 90 are the peaks that an H200's counters give."""

_MODELLED: Final[Mapping[str, float]] = {"dram": 13.4, "l2": 47.4, "l1": 4.0, "tensor": 1.0}
"""Of the emulator, which is an A100 in this: bytes of DRAM (2,039 GB/s for 108 SMs at 1.41 GHz: NVIDIA A100
data sheet) and of L2 (5,120 for 108 SMs: NVIDIA A100 whitepaper), sectors of L1 and cycles of the tensor
cores (`emulator/costs.py`) that an SM can do in a cycle."""

_CLOSEST: Final = ("tensor", "fp64", "fma", "xu", "alu", "shared", "lsu", "dram", "l2", "l1", "issue")
"""Of resources that are used alike, the first one is named: what uses it uses the later ones, too. All that
comes from DRAM passes L2, and an instruction for a pipe takes an issue slot."""
_ALIKE_POINTS: Final = 5.0
_SHARED_STALLS: Final = ("not_selected", "math_pipe_throttle", "mio_throttle", "lg_throttle")
"""On the emulator, those that are longer the more warps an SM has."""
ON_EMULATOR: Final = "how close a kernel comes to a GPU's peaks is not modelled on the emulator"
_ALONE: Final = ("dram_read_alone", "dram_write_alone")
ATTAINED: Final[Mapping[str, float]] = dict.fromkeys(RESOURCES, 0.95) | {"dram": 0.89, "tensor": 0.8}
"""By resource, what part of its peak good kernels reach if it binds them (`rules.thresholds`)."""


@dataclass(frozen=True)
class BareTime:
    """The time of a bare launch of a configuration, and its device. capability: 90 for 9.0. is_modelled: of
    the emulator, as its part of a launch of more CTAs than fit at once: if its resources need longer than its
    warps, so does the launch."""

    cycles: float
    sms: int
    capability: int
    is_modelled: bool = False


def limits(tables: Tables) -> pd.DataFrame:
    """One row for each configuration of a kernel and resource of the GPU: how much of it a launch uses.

    | column | dtype | |
    |---|---|---|
    | `kernel`, `variant` | str, int32 | as in the summary |
    | `resource` | str | dram, l2, l1, shared, issue, tensor, fma, alu, fp64, xu or lsu |
    | `used`, `unit` | float64, str | on average over the launch; null if unknown |
    | `peak` | float64 | the most that the resource can do, in `unit` |
    | `peak_pct` | float64 | `used` of `peak`, in percent |
    | `basis` | str | its source: "counters", "counts" or "types"; "" without one |

    counters: the hardware's, of bare launches (`session(evidence=True)`). counts: without counters, the
    executed instructions and wavefronts, at published rates of the architecture (compute capability 8.0, 8.6,
    8.9 and 9.0) and the time of a launch; they tell nothing of DRAM, L2, L1 and the tensor cores.
    types: without both, bytes and FLOPs by the types of the ops, against the data sheet's DRAM and tensor
    cores; upper bounds, since caches may have held the bytes. On the emulator there are no rows: how close a
    kernel comes to a GPU's peaks is not modelled.

    attrs["bound"]: a list of [kernel, variant, text], such as "bound by L2 (83 %)". If all counters are below
    60 % of their peaks, it is "latency-bound". attrs["not_measured"]: a list of texts, unknowns and
    why.
    """
    if tables.emulated:
        table = answer_frame([], LIMITS_DTYPES, [ON_EMULATOR] if len(tables.launches) else [])
        table.attrs["bound"] = []
        return table
    times = _times(tables)
    rows = _of_evidence(tables.counters, tables.counts, times)
    of_counts = dict.fromkeys((row["kernel"], row["variant"]) for row in rows if row["basis"] == "counts")
    done = {(row["kernel"], row["variant"]) for row in rows}
    launched = zip(tables.launches["kernel"], tables.launches["variant"].tolist(), strict=True)
    by_types = not done.issuperset(launched)  # else what types cannot say is not missed
    roofs = roof_table(tables)
    for kernel in roofs.to_dict("records"):
        key = kernel["kernel"], kernel["variant"]
        if key not in done:
            rows += _rows(key, _of_types(kernel, tables), "types")
            done.add(key)
    refused = refused_evidence(tables.metadata)
    missing = [*([refused] if refused else []), *(roofs.attrs["not_measured"] if by_types else ())]
    table = answer_frame(rows, LIMITS_DTYPES, [*missing, *_unknown({key: times[key] for key in of_counts})])
    groups = table.groupby(["kernel", "variant"], sort=False)
    table.attrs["bound"] = [[kernel, variant, bound_by(group)] for (kernel, variant), group in groups]
    return table


def _unknown(times: Mapping[tuple[str, int], BareTime]) -> list[str]:
    """What is not known of configurations whose instructions were counted. times: of these."""
    texts = []
    for (kernel, variant), time in times.items():
        texts.append(
            f"{kernel} #{variant}: instruction counts do not tell the use of DRAM, L2, L1 and the tensor "
            "pipe; counters do (session(evidence=True))"
        )
        if time.capability not in _RATES:
            known = ", ".join(f"{each / 10:.1f}" for each in _RATES)
            texts.append(
                f"{kernel} #{variant}: no peaks are known of compute capability {time.capability / 10:.1f}; "
                f"those of {known} are"
            )
    return texts


def limits_of(
    counters: pd.DataFrame,
    counts: pd.DataFrame | None = None,
    times: Mapping[tuple[str, int], BareTime] | None = None,
) -> pd.DataFrame:
    """The rows of configurations with counters, and of those with counts whose time is known.

    counters, counts: the tables of these names. times: by kernel and variant.
    """
    return answer_frame(_of_evidence(counters, counts, times or {}), LIMITS_DTYPES)


def _of_evidence(
    counters: pd.DataFrame, counts: pd.DataFrame | None, times: Mapping[tuple[str, int], BareTime]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    done = set()
    alone: dict[Any, float] = {}
    for key, group in counters.groupby(["kernel", "variant"], observed=True, sort=False):
        columns = (group[name].tolist() for name in ("counter", "value", "unit", "peak_pct"))
        known = {counter: row for counter, *row in zip(*columns, strict=True)}
        if all(counter not in known for counter, _ in RESOURCES.values()):  # the emulator's bytes of DRAM
            alone[key] = sum(float(known[name][0]) for name in _ALONE if name in known)
            continue
        rows += _rows(key, {name: _of_counter(known, name) for name in RESOURCES}, "counters")
        done.add(key)
    if counts is not None:
        for key, group in counts.groupby(["kernel", "variant"], observed=True, sort=False):
            time = times.get(_configuration(key))
            if key not in done and time is not None:
                rows += _rows(key, _of_counts(group, time, alone.get(key, 0.0)), "counts")
    return rows


def _times(tables: Tables) -> dict[tuple[str, int], BareTime]:
    """How long bare launches take: as timed (`baseline=`, counters), else as recorded ones
    take."""
    times: dict[tuple[str, int], BareTime] = {}
    durations = launch_durations(tables)
    for key, group in tables.launches.groupby(["kernel", "variant"], sort=False):
        kernel, variant = _configuration(key)
        if (time := bare_time(tables, durations[group.index], group, (kernel, variant))) is not None:
            times[kernel, variant] = time
    return times


def bare_time(
    tables: Tables, durations: pd.Series, launches: pd.DataFrame, of: tuple[str, int]
) -> BareTime | None:
    """The bare time of one kernel and variant, whose launches these are; None if unknown. durations: see
    `took`."""
    device = tables.metadata.get("device") or {}
    capability = str(device.get("arch") or "").removeprefix("sm_").rstrip("af")
    sms = sm_count_of(tables.metadata)
    if not sms or not capability.isdecimal():
        return None
    if tables.emulated:
        return _modelled(tables, launches, of, sms, int(capability))
    known = bare_times(tables, *of).bare or durations.dropna().tolist()
    clock_ghz = float(launches["clock_ghz"].median())
    cycles = float(np.median(known)) * clock_ghz if known and clock_ghz > 0 else 0.0
    return BareTime(cycles, sms, int(capability)) if cycles > 0 else None


def _modelled(
    tables: Tables, launches: pd.DataFrame, of: tuple[str, int], sms: int, capability: int
) -> BareTime | None:
    """The share of one of the emulator's launches in one of many more CTAs, where each SM has as many as fit:
    the few CTAs of a small launch would make any kernel latency-bound. What warps wait for each other on an
    SM is left out, as the resources stand for it: of R CTAs all but one part in R."""
    ctas, samples = rows_of(tables.ctas, *of), rows_of(tables.samples, *of)
    room = max(1, max_resident_ctas(tables.metadata, *of))
    grid = float(launches[["grid_x", "grid_y", "grid_z"]].prod(axis=1).mean())
    shared = samples["stall"].isin(_SHARED_STALLS)
    queued = float(samples.loc[shared, "samples"].sum()) / max(1, int(samples["samples"].sum()))
    residents = min(room, max(1.0, grid / sms))
    alone = float(ctas["duration_cycles"].mean()) * (1 - queued * (1 - 1 / residents))
    cycles = alone * grid / (room * sms)
    return BareTime(cycles, sms, capability, is_modelled=True) if cycles > 0 else None


def _configuration(key: Any) -> tuple[str, int]:
    kernel, variant = key
    return str(kernel), int(variant)


def _of_types(kernel: Mapping[Any, Any], tables: Tables) -> dict[str, tuple[float, str, float, float]]:
    """What the ops' types say of DRAM and the tensor cores. kernel: its row of `roof_table`."""
    peak = peak_of(tables.metadata)
    found = {"dram": (kernel["gb_per_s"], "GB/s", math.nan, math.nan)}
    if kernel["flops"]:
        found["tensor"] = (kernel["tflop_per_s"], "TFLOP/s", math.nan, math.nan)
    bound = {"memory": "dram", "tensor cores": "tensor"}.get(kernel["bound"])
    if bound is not None and peak is not None:
        used, unit, _, _ = found[bound]
        found[bound] = (used, unit, 100 * used / kernel["peak_pct"], kernel["peak_pct"])
    return found


def _rows(key: tuple[Any, ...], found: Mapping[str, Any], basis: str) -> list[dict[str, Any]]:
    """found: by resource used, unit, peak and peak_pct; None if unknown."""
    kernel, variant = _configuration(key)
    rows = []
    for resource in RESOURCES:
        row = {"kernel": kernel, "variant": variant, "resource": resource, **_UNKNOWN}
        if (figures := found.get(resource)) is not None:
            used, unit, peak, peak_pct = figures
            row |= {"used": used, "unit": unit, "peak": peak, "peak_pct": peak_pct, "basis": basis}
        rows.append(row)
    return rows


def _of_counter(known: Mapping[str, list[Any]], resource: str) -> tuple[float, str, float, float] | None:
    counter = RESOURCES[resource][0]
    if counter not in known:
        return None
    used, unit, peak_pct = known[counter]
    if resource == "dram":
        used, unit = _bandwidth(known), "GB/s"
    peak = 100.0 if unit == "%" else 100 * used / peak_pct if peak_pct else math.nan
    return used, unit, peak, peak_pct


def _of_counts(
    group: pd.DataFrame, time: BareTime, alone: float
) -> dict[str, tuple[float, str, float, float]]:
    """What the instructions of one launch take of each pipe, at the rates of the architecture. Of L2 and DRAM
    that is only known of the emulator, whose L1 has nothing. alone: bytes that CTAs have alone."""
    rates = {**_RATES.get(time.capability, {}), **(_MODELLED if time.is_modelled else {})}
    launches = int(group["launches"].max())
    cycles = launches * time.sms * time.cycles
    executed: Counter[str] = Counter()
    tensor = 0
    for opcode, count in group["executed"].groupby(group["opcode"].astype("str")).sum().items():
        for pipe, slots in slots_of(str(opcode)).items():
            executed[pipe] += slots * int(count)
        if str(opcode).startswith("mma"):
            tensor += tensor_cycles(str(opcode)) * int(count)
    used: dict[str, float] = {"issue": executed.total(), "shared": int(group["wavefronts"].sum())}
    used |= {pipe: executed[pipe] for pipe in PIPES}
    units = {
        "shared": "wavefronts/cycle", "l1": "sectors/cycle", "tensor": "cycles/cycle", "l2": "B/cycle",
        "dram": "B/cycle",
    }  # fmt: skip
    if time.is_modelled:
        sectors = int(group["sectors"].sum())
        used |= {"l1": sectors, "l2": 32 * sectors, "dram": launches * alone, "tensor": tensor}
        cycles = max([cycles, *(used[name] / rate / ATTAINED[name] for name, rate in rates.items())])
    return {
        resource: (
            each / cycles,
            units.get(resource, "inst/cycle"),
            rate := rates.get(resource, math.nan),
            100 * each / cycles / rate,
        )
        for resource, each in used.items()
    }


def bound_by(of_configuration: pd.DataFrame) -> str:
    """One line for the limits of one configuration: `bound by L2 (83 %)`."""
    known = of_configuration.dropna(subset="peak_pct")
    used = dict(zip(known["resource"].tolist(), known["peak_pct"].tolist(), strict=True))
    if not used:
        return "bound by: unknown"
    bound = binding(used)
    if not bound:
        # Of the others DRAM and L2 are unknown.
        return "latency-bound" if (known["basis"] == "counters").all() else "bound by: unknown"
    return f"bound by {RESOURCES[bound][1]} ({used[bound]:.0f} %)"


def being(resource: str) -> str:
    """ "DRAM is", "issue slots are"."""
    name = RESOURCES[resource][1]
    return f"{name} are" if name.endswith("s") else f"{name} is"


def binding(peak_pct: Mapping[str, float]) -> str:
    """The resource that binds a kernel, "" if none does. peak_pct: by resource."""
    most = max(peak_pct.values())
    alike = max(most - _ALIKE_POINTS, BOUND_PCT)
    return next((name for name in _CLOSEST if peak_pct.get(name, 0.0) >= alike), "")


_UNKNOWN: Final = {"used": math.nan, "unit": "", "peak": math.nan, "peak_pct": math.nan, "basis": ""}


def _bandwidth(known: Mapping[str, list[Any]]) -> float:
    """GB/s of DRAM, read and written."""
    if not {"dram_read", "dram_write", "time"} <= known.keys():
        return math.nan
    read, written, time_ns = (float(known[name][0]) for name in ("dram_read", "dram_write", "time"))
    return (read + written) / time_ns if time_ns else math.nan
