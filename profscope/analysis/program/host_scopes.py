"""The time of each scope of the host's code, on the host and on the GPU."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import CALL_ARROW, GPU_KINDS, HOST_DTYPES, Tables

__all__ = [
    "HOST_SCOPE_DTYPES",
    "are_triton",
    "host_scopes",
    "why_no_gpu_events",
]

HOST_SCOPE_DTYPES: Final = {
    "path": "str",
    "source": "str",
    "depth": "int32",
    "count": "int64",
    "total_ns": "int64",
    "self_ns": "int64",
    "mean_ns": "float64",
    "gpu_launches": "int64",
    "launches_each": "float64",
    "gpu_ns": "int64",
    "triton_ns": "int64",
}
"""The columns of `host_scopes`, with their pandas dtypes, in order; means of metrics follow."""


def host_scopes(tables: Tables) -> pd.DataFrame:
    """One row per path of host scopes, as a tree: outer ones first, siblings by time.

        path            count  total_ns  self_ns  mean_ns  gpu_launches  launches_each   gpu_ns  triton_ns
        step               30   2034000    14000    67800          8100          270.0  1811000    1102000
        step > forward     30    902000   902000    30066          3630          121.0   703000     512000

    total_ns, self_ns, mean_ns: of the host's clock, all entries together; self_ns less the scopes inside.
    gpu_launches: kernels, collectives, copies and sets launched in the scope or in one inside of it;
    launches_each: by entry. gpu_ns: their summed time, so concurrent work counts twice; triton_ns: the part
    of Triton's kernels. Without events these are of the recorded launches alone, which
    `attrs["not_measured"]` says. Behind these columns there is one for each metric, its mean.
    """
    host = tables.host
    metrics = [str(name) for name in host if name not in HOST_DTYPES]
    duration = (host["end_unix_ns"] - host["start_unix_ns"]).to_numpy()
    parent = host["parent"].to_numpy()
    own = duration.copy()
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(own, parent[inner], duration[inner])
    work = _gpu_work(tables)
    figures = np.zeros((3, len(host)), np.int64)
    inside = work[work["host"] >= 0]
    scope = inside["host"].to_numpy()
    ns = inside["duration_ns"].to_numpy()
    for row, values in enumerate((np.ones(len(inside), np.int64), ns, np.where(inside["triton"], ns, 0))):
        np.add.at(figures[row], scope, values)
    for level in range(int(host["depth"].max()) if len(host) else 0, 0, -1):  # what is inside counts outside
        rows = np.flatnonzero((host["depth"] == level) & (parent >= 0))
        for figure in figures:
            np.add.at(figure, parent[rows], figure[rows])
    table = host[["source", "depth", *metrics]].assign(
        path=scope_paths(host), count=1, total_ns=duration, self_ns=np.maximum(own, 0),
        gpu_launches=figures[0], gpu_ns=figures[1], triton_ns=figures[2],
    )  # fmt: skip
    sums = dict.fromkeys(("count", "total_ns", "self_ns", "gpu_launches", "gpu_ns", "triton_ns"), "sum")
    how: dict[str, str] = {"source": "first", "depth": "first", **sums, **dict.fromkeys(metrics, "mean")}
    table = table.groupby("path", sort=False).agg(how).reset_index()
    table["mean_ns"] = table["total_ns"] / table["count"]
    table["launches_each"] = table["gpu_launches"] / table["count"]
    table = table[[*HOST_SCOPE_DTYPES, *metrics]].astype(HOST_SCOPE_DTYPES)
    table = _as_tree(table)
    has_events = bool(tables.events["kind"].isin(GPU_KINDS).any())
    why = f"only launches that were recorded are known: {why_no_gpu_events(tables)}"
    table.attrs["not_measured"] = [] if has_events else [why]
    return table


def _as_tree(table: pd.DataFrame) -> pd.DataFrame:
    """Rows behind the one they lie in, the longest first."""
    total = dict(zip(table["path"], table["total_ns"].tolist(), strict=True))
    keys = []
    for path in table["path"]:
        parts = path.split(CALL_ARROW)
        above = (CALL_ARROW.join(parts[: at + 1]) for at in range(len(parts)))
        keys.append([(-total.get(each, 0), each) for each in above])
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return table.iloc[order].reset_index(drop=True)


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


def _gpu_work(tables: Tables) -> pd.DataFrame:
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


def why_no_gpu_events(tables: Tables) -> str:
    """The reason why tables have no GPU events, and a remedy if there is one."""
    if tables.emulated:
        return "the emulator runs kernels on the CPU, so there are no events of a GPU"
    if (tables.metadata.get("options") or {}).get("events"):
        return "events=True saw nothing run on a GPU"
    return "there are no events of a GPU; session(events=True) records all that runs on one"
