"""Which of NVIDIA's metrics are read, what they are called here, and in which unit.

Names: NVIDIA, "Nsight Compute, Profiling Guide", Metrics Reference. All passes of a chip for all of these:
tests/evidence/test_witnesses.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from profscope.analysis.kernels.devices import PIPES

__all__ = ["COUNTERS", "COUNTS", "MOST_PASSES", "Counter", "user_counters"]

MOST_PASSES: Final = 9
"""Launches of one configuration that counters may take. A GH100 and a GB100 take 4, a GA100 9."""


@dataclass(frozen=True)
class Counter:
    """One row of `prof.counters`.

    name: as in the column `counter`. metric: NVIDIA's name. others: names of the same metric on other chips.
    unit: of the value; "%" if the value is a percentage. peak: the metric that gives `peak_pct`; "" if none,
    `metric` if the value is the percentage of the peak itself. rivals: metrics like this one; the greatest of
    all is the value, and its name stands in the column `metric`.
    """

    name: str
    metric: str
    unit: str
    peak: str = ""
    others: tuple[tuple[str, ...], ...] = ()
    rivals: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        if self.rivals:
            return (self.metric, *self.rivals)
        return (self.metric,) if self.peak in ("", self.metric) else (self.metric, self.peak)

    def read(self, values: Mapping[str, float]) -> tuple[str, float, float] | None:
        """The metric, its value and the percentage of its peak, null where the hardware gave no number; None
        if it was not counted. values: by NVIDIA's name, as this chip names them."""
        for metrics in (self.metrics, *self.others):
            if metrics[0] in values:
                numbers = {metric: _number(values[metric]) for metric in metrics}
                first, last = metrics[0], metrics[-1]
                if self.rivals:
                    first = last = max(metrics, key=lambda metric: (numbers[metric] >= 0, numbers[metric]))
                return first, numbers[first], numbers[last] if self.peak else math.nan
        return None


def _number(value: float) -> float:
    """The hardware gives none for 0 sectors of 0 requests."""
    return value if math.isfinite(value) else math.nan


def _throughput(name: str, metric: str) -> Counter:
    full = f"{metric}.avg.pct_of_peak_sustained_elapsed"
    return Counter(name, full, "%", full)


def _dram(name: str, metric: str, other: str) -> Counter:
    peak = "sum.pct_of_peak_sustained_elapsed"
    others = ((f"{other}.sum", f"{other}.{peak}"),)
    return Counter(name, f"{metric}.sum", "B", f"{metric}.{peak}", others)


def _rate(name: str, metric: str, unit: str) -> Counter:
    """Events of each SM and cycle."""
    peak = f"{metric}.avg.pct_of_peak_sustained_elapsed"
    return Counter(name, f"{metric}.avg.per_cycle_elapsed", unit, peak)


def _busiest(name: str, metric: str, *parts: str) -> Counter:
    """A throughput by the parts of a unit that can bind it: NVIDIA's own metric of it has more parts, none of
    which is busier, and takes more passes."""
    first, *rest = (f"{part}.avg.pct_of_peak_sustained_elapsed" for part in parts)
    whole = f"{metric}.avg.pct_of_peak_sustained_elapsed"
    return Counter(name, first, "%", first, ((whole,),), tuple(rest))


_WARPS: Final = "sm__warps_active.avg"

COUNTERS: Final[tuple[Counter, ...]] = (
    Counter("time", "gpu__time_duration.sum", "ns"),
    Counter("clock", "gpc__cycles_elapsed.avg.per_second", "Hz"),
    _throughput("dram_throughput", "gpu__dram_throughput"),
    _throughput("l2_throughput", "lts__throughput"),
    _busiest(
        "l1_throughput",
        "l1tex__throughput",
        "l1tex__data_pipe_lsu_wavefronts",
        "l1tex__m_l1tex2xbar_req_cycles_active",
        "l1tex__m_xbar2l1tex_read_sectors",
        "l1tex__lsuin_requests",
    ),
    _dram("dram_read", "dram__bytes_read", "dram__bytes_op_read"),
    _dram("dram_write", "dram__bytes_write", "dram__bytes_op_write"),
    Counter("l2_hit_rate", "lts__t_sector_hit_rate.pct", "%"),
    Counter("l1_hit_rate", "l1tex__t_sector_hit_rate.pct", "%"),
    Counter("instructions", "sm__inst_executed.sum", "inst"),
    _rate("issue_slots", "sm__inst_issued", "inst/cycle"),
    Counter("occupancy", f"{_WARPS}.per_cycle_active", "warps", f"{_WARPS}.pct_of_peak_sustained_active"),
    _throughput("pipe_tensor", "sm__pipe_tensor_cycles_active"),
    *(_rate(f"pipe_{pipe}", f"sm__inst_executed_pipe_{pipe}", "inst/cycle") for pipe in PIPES),
    _rate("shared_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared", "wavefronts/cycle"),
    Counter("bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "wavefronts"),
    Counter("tma_load", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", "B"),
    Counter("tma_store", "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum", "B"),
)
"""The most important ones first: where all of them need more than MOST_PASSES, the last ones are left out.

What prof.counts has by instruction, such as sectors and local memory, is not counted again: on a GH100 that
would take 5 more passes, and the throughput of an SM, the most of its pipes, 4."""

COUNTS: Final[dict[str, str]] = {
    "executed": "smsp__sass_inst_executed",
    "threads": "smsp__sass_thread_inst_executed_pred_on",
    "sectors": "smsp__sass_sectors_mem_global",
    "sectors_ideal": "smsp__sass_sectors_mem_global_ideal",
    "wavefronts": "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",
    "wavefronts_ideal": "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal",
    "local_sectors": "smsp__sass_sectors_mem_local",
    "divergent": "smsp__sass_branch_targets_threads_divergent",
}
"""By column of `prof.counts`: NVIDIA's name of the SASS metric."""


def user_counters(metrics: Sequence[str]) -> tuple[Counter, ...]:
    """Counters that a user adds by NVIDIA's names, in their own order."""
    known = {metric for counter in COUNTERS for metric in counter.metrics}
    return tuple(
        Counter(metric, metric, "%" if ".pct" in metric or "_pct" in metric else "")
        for metric in dict.fromkeys(metrics)
        if metric not in known
    )
