"""What Nsight Compute measured of each kernel, beside what its ops move and compute."""

import re
from typing import Any

import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.op_labels import hides_copies, with_global_bytes
from profscope.analysis.summary import summary
from profscope.schema import Tables

__all__ = ["counters", "measured"]

_METRICS = {
    "ncu_us": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
_UNITS = {"us": ("s", "second"), "bytes": ("byte", "B"), "percent": ("%",)}
"""By the last word of a column: a metric in another unit, or in none, is not shown there."""
_PIPE = re.compile(
    r"sm__(?:inst_executed_)?pipe_(\w+?)(?:_cycles_active)?\.avg\.pct_of_peak_sustained_active"
)
_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "launches": "int64",
    "bytes_at_most": "Float64",
    "flops": "Float64",
    "ncu_launches": "int64",
    **dict.fromkeys(_METRICS, "Float64"),
    "pipe": "str",
    "pipe_percent": "Float64",
}


def counters(tables: Tables) -> pd.DataFrame:
    """One row per kernel and variant: bytes and flops by its ops, and what Nsight Compute measured of it.

    Columns: kernel, variant; launches; bytes_at_most and flops of one launch, as the types of its ops say
    (global memory; masked lanes count), missing where no recorded op has any, and bytes_at_most where copies
    are waited for that are not recorded themselves, as at the default level. Then of the report that
    `add_ncu` was given, means over its `ncu_launches` launches, missing where it has not got the metric:
    ncu_us, its duration; dram_read_bytes, dram_write_bytes, l2_bytes; dram_percent and sm_percent of what the
    GPU can do; occupancy_percent, warps on an SM of those that fit; pipe and pipe_percent, the busiest of the
    SM's pipes and how busy it was. All metrics are in metadata["ncu"].

    More dram bytes than `bytes_at_most`: data are fetched more than once. Fewer: caches held them, or
    lanes are masked off.
    """
    return measured(summary(tables), tables)


def measured(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """What `counters` returns, of a profile whose summary is known."""
    entries = {
        (entry["kernel"], entry["variant"]): entry
        for entry in (tables.metadata.get("ncu") or {}).get("kernels") or []
    }
    launches = tables.launches[~tables.launches["trial"]]
    counts = launches.groupby(["kernel", "variant"], sort=False).size()
    table = with_global_bytes(table)
    table = table[~table["trial"]].astype({"kernel": "str"})
    work = table.groupby(["kernel", "variant"])[["bytes_at_most", "flops"]].sum(min_count=1)
    seen = table.groupby(["kernel", "variant"])["launches"].max()
    partly = table.groupby(["kernel", "variant"])["scope"].agg(hides_copies)
    work.loc[partly.reindex(work.index, fill_value=False), "bytes_at_most"] = pd.NA
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*counts.index, *entries]):
        row = {"kernel": key[0], "variant": key[1], "launches": int(counts.get(key, 0))}
        for name in ("bytes_at_most", "flops"):
            total = work[name].get(key)
            row[name] = None if total is None or pd.isna(total) else total / max(int(seen[key]), 1)
        rows.append({**row, **_measured(entries.get(key))})
    return answer_frame(rows, _DTYPES)


def _measured(entry: dict[str, Any] | None) -> dict[str, Any]:
    metrics = {} if entry is None else entry["metrics"]
    row: dict[str, Any] = {}
    for name, metric in _METRICS.items():
        value, unit = metrics.get(metric, (None, ""))
        row[name] = value if unit in _UNITS[name.rpartition("_")[2]] else None
    if row["ncu_us"] is not None:
        row["ncu_us"] *= 1e6  # from seconds
    pipes = {
        match[1]: value
        for name, (value, _) in metrics.items()
        if (match := _PIPE.fullmatch(name)) is not None
    }
    busiest = max(pipes, key=lambda pipe: float(pipes[pipe]), default="")
    launches = 0 if entry is None else entry["launches"]
    return {**row, "ncu_launches": launches, "pipe": busiest, "pipe_percent": pipes.get(busiest)}
