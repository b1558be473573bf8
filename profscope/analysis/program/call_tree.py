"""The program as a tree of what called what, from scopes down to what ran on the GPU."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.program.host_scopes import scope_paths
from profscope.schema import CALL_ARROW, GPU_KINDS, Tables

__all__ = ["CALL_TREE_DTYPES", "call_tree"]

CALL_TREE_DTYPES: Final = {
    "name": "str",
    "kind": "str",
    "depth": "int64",
    "parent": "int64",
    "count": "int64",
    "host_ns": "int64",
    "host_self_ns": "int64",
    "gpu_ns": "int64",
    "gpu_launches": "int64",
    "path": "str",
}
"""The columns of `call_tree`, with their pandas dtypes, in order."""

_NO_GPU: Final = (
    "gpu_ns, gpu_launches: no event of a GPU was recorded; host_scopes() has the launches that were"
)


def call_tree(tables: Tables) -> pd.DataFrame:
    """One row per call path, in pre-order; of those beside each other what led to more GPU time comes first.

        name                 kind        depth  count  host_ns  host_self_ns   gpu_ns  gpu_launches
        step                 scope           0      2  1202000          9000  1011000           540
        forward              scope           1      2   502000         90000   410000           242
        aten::addmm          op              2     96   310000        120000   280000            48
        cudaLaunchKernel     call            3     48   190000        190000   280000            48
        nvjet_tst_128x64...  kernel          4     48        0             0   280000            48

    kind: "scope", or that of an event. host_ns: on the host, all entries together; host_self_ns less what is
    inside. gpu_ns: what was launched from here ran so long, added up; gpu_launches: so often. parent: the row
    around this one, -1 at a root.

    Empty where no events were recorded (`attrs["not_measured"]`): `host_scopes()` has the scopes alone.
    """
    events, host = tables.events, tables.host
    if not len(events):
        reason = "the call tree: no events were recorded; session(events=True) does"
        return answer_frame([], CALL_TREE_DTYPES, [reason])
    tree = _figures(events, host)
    at = {path: row for row, path in enumerate(tree["path"].tolist())}
    # A path's last part may have the arrow in its name: what is around it is known as a path of its own.
    around = [at.get(path, -1) for path in tree["around"].tolist()]
    depth = np.zeros(len(around), np.int64)
    for row, above in enumerate(around):  # paths are in the order of their depth
        depth[row] = 0 if above < 0 else depth[above] + 1
    for row in np.argsort(-depth, kind="stable").tolist():
        above = around[row]
        if above >= 0:
            for name in ("gpu_ns", "gpu_launches"):
                tree[name][above] += tree[name][row]
            tree["host_self_ns"][above] -= tree["host_ns"][row]
    order, parent = _pre_order(around, tree["gpu_ns"], tree["host_ns"])
    table = pd.DataFrame({**tree, "depth": depth}).iloc[order].reset_index(drop=True)
    table["parent"] = parent
    table["host_self_ns"] = table["host_self_ns"].clip(lower=0)
    table = table[list(CALL_TREE_DTYPES)].astype(CALL_TREE_DTYPES)
    on_gpu = events["kind"].isin(GPU_KINDS).any()
    table.attrs["not_measured"] = [] if on_gpu else [_NO_GPU]
    return table


def _figures(events: pd.DataFrame, host: pd.DataFrame) -> dict[str, np.ndarray]:
    """By path, shorter ones first: what is of that path alone."""
    duration = (events["end_unix_ns"] - events["start_unix_ns"]).to_numpy()
    key = events["call_path"].cat.codes.to_numpy(np.int64) * len(events["name"].cat.categories)
    key = (key + events["name"].cat.codes.to_numpy()) * len(events["kind"].cat.categories)
    key += events["kind"].cat.codes.to_numpy()
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    on_gpu = events["kind"].isin(GPU_KINDS).to_numpy()
    rows = pd.DataFrame(
        {
            "name": events["name"].iloc[first].astype("str").to_numpy(),
            "kind": events["kind"].iloc[first].astype("str").to_numpy(),
            "around": events["call_path"].iloc[first].astype("str").to_numpy(),
            "count": np.bincount(place, minlength=len(first)),
            "host_ns": _sums(place, np.where(on_gpu, 0, duration), len(first)),
            "gpu_ns": _sums(place, np.where(on_gpu, duration, 0), len(first)),
            "gpu_launches": _sums(place, on_gpu.astype(np.int64), len(first)),
        }
    )
    paths = scope_paths(host)
    scopes = pd.DataFrame(
        {
            "name": host["scope"].to_numpy(),
            "kind": "scope",
            "around": ["" if above < 0 else paths[above] for above in host["parent"].tolist()],
            "count": 1,
            "host_ns": (host["end_unix_ns"] - host["start_unix_ns"]).to_numpy(),
            "gpu_ns": 0,
            "gpu_launches": 0,
        }
    )
    both = pd.concat([scopes, rows], ignore_index=True)
    both["path"] = np.where(both["around"] == "", both["name"], both["around"] + CALL_ARROW + both["name"])
    figures = ["count", "host_ns", "gpu_ns", "gpu_launches"]
    how = {"name": "first", "kind": "first", "around": "first"} | dict.fromkeys(figures, "sum")
    both = both.groupby("path", sort=False).agg(how).reset_index()
    both = both.sort_values("path", key=lambda path: path.str.len(), kind="stable")
    return {str(name): both[name].to_numpy().copy() for name in both} | {
        "host_self_ns": both["host_ns"].to_numpy().copy()
    }


def _sums(place: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, place, values)
    return sums


def _pre_order(around: list[int], gpu_ns: np.ndarray, host_ns: np.ndarray) -> tuple[list[int], list[int]]:
    """The rows in the order they are shown in, and for each, in that order, the place of its parent."""
    inside: dict[int, list[int]] = {}
    for row in np.lexsort((-host_ns, -gpu_ns)).tolist():
        inside.setdefault(around[row], []).append(row)
    order: list[int] = []
    place: dict[int, int] = {-1: -1}
    left = inside.get(-1, [])[::-1]
    while left:
        row = left.pop()
        place[row] = len(order)
        order.append(row)
        left += inside.get(row, [])[::-1]
    return order, [place[around[row]] for row in order]
