"""What several questions ask of host scopes and events: paths, and what was done on a GPU in each scope."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import CALL_ARROW, GPU_KINDS, Tables

__all__ = ["are_triton", "gpu_work", "scope_paths", "why_no_gpu_events", "without_events"]


def scope_paths(host: pd.DataFrame) -> list[str]:
    """For each scope the names that lead to it and its own, outermost first."""
    paths: list[str] = []
    for name, parent in zip(host["scope"], host["parent"].tolist(), strict=True):
        paths.append(name if parent < 0 else paths[parent] + CALL_ARROW + name)  # parents come first
    return paths


def are_triton(tables: Tables) -> NDArray[np.bool_]:
    """Which events are kernels of Triton's: those with a launch, those of the name of one that has, and those
    that torch.compile names so. Others that were launched bare throughout are not known."""
    events = tables.events
    names = events["name"].cat.categories
    known = names.isin(tables.launches["kernel"].unique()) | names.str.startswith("triton_")
    of_name = known[events["name"].cat.codes.to_numpy()] if len(names) else np.zeros(0, np.bool_)
    triton: NDArray[np.bool_] = (events["kind"] == "kernel").to_numpy() & of_name
    return triton


def gpu_work(tables: Tables) -> pd.DataFrame:
    """What ran on GPUs: host (its scope), duration_ns, triton. Of events, or of launches without these."""
    rows = tables.events["kind"].isin(GPU_KINDS).to_numpy()
    if rows.any():
        events = tables.events[rows]
        duration = events["end_unix_ns"] - events["start_unix_ns"]
        columns = {"host": events["host"], "duration_ns": duration, "triton": are_triton(tables)[rows]}
        return pd.DataFrame(columns).reset_index(drop=True)
    launches = tables.launches
    duration = launches["end_ns"] - launches["start_ns"]
    return pd.DataFrame({"host": launches["host"], "duration_ns": duration, "triton": True})


def without_events(tables: Tables) -> list[str]:
    """Why figures of events are missing, where they are."""
    if tables.events["kind"].isin(GPU_KINDS).any():
        return []
    return [f"only launches that were recorded are known: {why_no_gpu_events(tables)}"]


def why_no_gpu_events(tables: Tables) -> str:
    """Of tables without any, and what mends it where something does."""
    if tables.emulated:
        return "the emulator runs kernels on the CPU, so there are no events of a GPU"
    if (tables.metadata.get("options") or {}).get("events"):
        return "events=True saw nothing run on a GPU"
    return "there are no events of a GPU; session(events=True) records all that runs on one"
