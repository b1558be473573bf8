"""The time of compiled kernels, by module of the model."""

from __future__ import annotations

import pandas as pd

from profscope.analysis.summary import summary
from profscope.schema import Tables

__all__ = ["modules"]

_SUMMED = {"launches": "sum", "count": "sum", "total_ns": "sum", "total_cycles": "sum"}


def modules(tables: Tables) -> pd.DataFrame:
    """One row per module of a model that torch.compile has compiled, the heaviest first.

    module: as in `summary()`; modules that share a kernel share a row; "" if unknown, and for kernels that
    torch.compile did not make. kernels, launches, count: numbers of kernels, recorded launches and warps;
    total_ns, total_cycles: of their warps, scaled up as in `summary()`; share: of all rows' total_ns, 0..1.
    Trials are left out. Empty if no module is known.
    """
    table = summary(tables)
    is_known = bool((table["module"].astype("str") != "").any())
    roots = table[(table["kind"] == "kernel") & is_known]
    grouped = roots.groupby(roots["module"].astype("str"), sort=False)
    rows = grouped.agg(_SUMMED)
    rows.insert(0, "kernels", grouped["kernel"].nunique())
    rows["share"] = rows["total_ns"] / rows["total_ns"].sum()
    return rows.sort_values("total_ns", ascending=False, kind="stable").reset_index()
