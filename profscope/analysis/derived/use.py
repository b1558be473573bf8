"""How busy a launch keeps the resources of a GPU, by its own counts and its time, without counters.

Instructions and wavefronts say it of the issue slots, the pipes and shared memory (`limits`). Beyond these:

    tensor    by the types of the dots, against the data sheet
    l1        wavefronts and lines of four sectors, of which an SM passes one in a cycle
    l2        the sectors that loads, stores and atomics touch: an upper bound, as L1 may have had some
    dram      the different bytes among these: no more than the tensors have. A lower bound, as DRAM may send
              a byte again; unknown if nobody knows how large the tensors are

If a launch without its accesses to global memory takes as long, neither L2 nor DRAM binds it: of each no more
is taken to be used than twice what that experiment saved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import pandas as pd

from profscope.analysis.evidence_table import ATOMIC_OPS, LOAD_OPS, SECTOR_BYTES, STORE_OPS, EvidenceTable
from profscope.analysis.kernels.devices import peak_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.roof_rows import roof_rows_of
from profscope.analysis.limits import bare_time
from profscope.analysis.rules import thresholds
from profscope.instrument_passes.ablation.groups import GROUPS

__all__ = ["use_of"]

_BITS: Final = 16  # of the operands whose rate stands for all
_OF_SAVED: Final = 2.0


def use_of(
    judged: KernelAnalysis,
    by_counts: Mapping[str, float],
    table: EvidenceTable,
    experiments: pd.DataFrame,
    reach: float,
) -> tuple[dict[str, float], dict[str, float]]:
    """By resource what part of its peak is used, 0 to 1; and counters: time, clock, bytes of DRAM, as
    `prof.counters` has them, empty if they or the peaks of the GPU are not known.

    by_counts: what instructions and wavefronts alone say. table: of the counts. experiments: rows of
    `prof.experiments`. reach: the bytes of all tensors; infinite if they are not known.
    """
    tables, key = judged.tables, (judged.kernel, judged.variant)
    time = bare_time(tables, judged.durations, judged.launches, key)
    peak = peak_of(tables.metadata)
    used = dict(by_counts)
    if time is None or peak is None or not table.launches:
        return used, {}
    clock_ghz = float(judged.launches["clock_ghz"].median())
    seconds = time.cycles / clock_ghz * 1e-9
    load, store, atomic = (
        SECTOR_BYTES * table.sectors(*ops) / max(1, table.launches)
        for ops in (LOAD_OPS, STORE_OPS, ATOMIC_OPS)
    )
    has_tma = bool(table.of_class("tma").any())
    read, written = min(load, reach), min(store, reach)
    if has_tma:
        read = reach if math.isfinite(reach) else 0.0
        written = 0.0
    passed = load + store + 2 * atomic + table.local_bytes
    lines = table.total("wavefronts") / max(1, table.launches) + (load + store) / (
        SECTOR_BYTES * thresholds.LINE_SECTORS
    )
    used["l1"] = lines / (time.sms * time.cycles)
    if math.isfinite(reach):  # else the sectors may be the same bytes again and again
        used["dram"] = (read + written) / seconds / (1e9 * peak.memory_gb_per_s)
    if l2_gb_s := _l2_gb_s(tables.metadata):
        used["l2"] = passed / seconds / (1e9 * l2_gb_s)
    if flops := _tflop_per_s(judged):
        used["tensor"] = flops / peak.tflop_per_s[_BITS]
    most = _OF_SAVED * _saved_by_memory(experiments)
    for name in ("dram", "l2"):
        if name in used:
            used[name] = min(used[name], most, 1.0)
    values = {
        "time": 1e9 * seconds, "clock": 1e9 * clock_ghz, "dram_read": read, "dram_write": written,
    }  # fmt: skip
    return {name: min(1.0, value) for name, value in used.items()}, values


def _l2_gb_s(metadata: Mapping[str, object]) -> float:
    """As measured on this GPU; 0 if it was not."""
    device = metadata.get("device")
    peaks = device.get("peaks") if isinstance(device, Mapping) else None
    rate = peaks.get("l2_gb_s") if isinstance(peaks, Mapping) else None
    return float(rate) if isinstance(rate, float) and math.isfinite(rate) else 0.0


def _tflop_per_s(judged: KernelAnalysis) -> float:
    rows = [row for row in roof_rows_of(judged).rows if row["of"] == "kernel"]
    return float(rows[0]["tflop_per_s"]) if rows and rows[0]["flops"] else 0.0


def _saved_by_memory(experiments: pd.DataFrame) -> float:
    """The part of the time that a launch takes less without global memory; infinite if not measured."""
    timed = experiments[experiments["valid"] & (experiments["experiment"] == "off")]
    whole = timed[timed["op"] == GROUPS["memory"]]["saved_pct"]
    return max(0.0, float(whole.max()) / 100) if len(whole) else math.inf
