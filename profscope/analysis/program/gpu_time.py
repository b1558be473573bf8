"""A program's GPU time by kind of work, and the part of Triton's kernels."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.program.host_scopes import are_triton, why_no_gpu_events
from profscope.schema import GPU_KINDS, Tables

__all__ = ["GPU_TIME_DTYPES", "gpu_time"]

GPU_TIME_DTYPES: Final = {
    "what": "str",
    "name": "str",
    "count": "int64",
    "total_ns": "int64",
    "share": "float64",
    "recorded": "int64",
}
"""The columns of `gpu_time`, with their pandas dtypes, in order."""


def gpu_time(tables: Tables) -> pd.DataFrame:
    """One row per kernel, collective, copy and set by name, the most time first.

        what        name                    count  total_ns  share  recorded
        kernel      nvjet_tst_128x64_...       96    410000   0.40         0
        Triton      triton_poi_fused_gelu      48    220000   0.21        48

    what: "Triton", another "kernel", or the event's kind. share: of the time of all, added up over streams
    and GPUs. recorded: how many of them have a launch in the profile, into which one can look.

    attrs["triton_share"] is the part of that time in Triton's kernels, the most that changes inside kernels
    can save. Missing (None) without events, as attrs["not_measured"] says.
    """
    events = tables.events
    rows = np.flatnonzero(events["kind"].isin(GPU_KINDS))
    triton = are_triton(tables)[rows]
    ours = events.iloc[rows]
    table = pd.DataFrame(
        {
            "what": np.where(triton, "Triton", ours["kind"].astype("str").to_numpy()),
            "name": ours["name"].astype("str").to_numpy(),
            "count": 1,
            "total_ns": (ours["end_unix_ns"] - ours["start_unix_ns"]).to_numpy(),
            "recorded": (ours["launch"] >= 0).to_numpy().astype(np.int64),
        }
    )
    table = table.groupby(["what", "name"], sort=False).sum().reset_index()
    total_ns = int(table["total_ns"].sum())
    table["share"] = table["total_ns"] / max(1, total_ns)
    table = table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    table = table[list(GPU_TIME_DTYPES)].astype(GPU_TIME_DTYPES)
    of_triton = float(table.loc[table["what"] == "Triton", "share"].sum())
    table.attrs["triton_share"] = of_triton if len(rows) else None
    table.attrs["not_measured"] = [] if len(rows) else [f"GPU time: {why_no_gpu_events(tables)}"]
    return table
