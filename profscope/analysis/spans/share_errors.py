"""How well the shares of a kernel's time are known of which only some CTAs were recorded.

A share is a ratio of two estimates that vary together: a CTA that takes longer has more of every row. So its
standard error is that of what a CTA's row differs from the same share of the CTA's time (W. G. Cochran,
"Sampling Techniques", 1977, equation 6.13), which is far less than the row's own where CTAs do unequal work.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import GROUP_COLUMNS, grid_ctas, grid_scales, not_samples
from profscope.analysis.spans.summing import SummedSpans, cta_cells
from profscope.schema import Tables

__all__ = ["share_errors"]

_TOP: Final = 0.1
"""Of a configuration's warp time: what has less of it is no top row."""


def share_errors(tables: Tables, spans: SummedSpans) -> dict[tuple[str, int], float]:
    """By kernel and variant, the largest standard error of its top rows' shares of the time of its warps, as
    a part of the share. None is known of those without an entry: all CTAs recorded, those of a list, or one.
    """
    launches = tables.launches
    scale = grid_scales(launches)
    told = (scale != 1) & ~launches["kernel"].isin(not_samples(tables.metadata)).to_numpy()
    if not told.any():
        return {}
    cells = cta_cells(tables, spans, np.arange(len(spans.rows)), told)
    rows = spans.rows[list(GROUP_COLUMNS)]
    group = rows.groupby(list(GROUP_COLUMNS), sort=False, observed=True).ngroup().to_numpy()
    first = np.flatnonzero(np.diff(cells.cta, prepend=-1))
    recorded = np.bincount(cells.launch[first], minlength=len(launches))
    grid = grid_ctas(launches)
    own = np.bincount(cells.place, cells.took * (grid / np.maximum(recorded, 1))[cells.launch], len(rows))
    share = own / np.maximum(np.bincount(group, own)[group], 1)
    top = np.flatnonzero(share >= _TOP)
    ctas = pd.DataFrame(
        {
            "cta": cells.cta[first],
            "launch": cells.launch[first],
            "group": group[cells.place[first]],
            "time": np.bincount(cells.cta, cells.took),
        }
    )
    each = ctas.merge(pd.DataFrame({"group": group[top], "place": top, "share": share[top]}), on="group")
    taken = pd.DataFrame({"cta": cells.cta, "place": cells.place, "took": cells.took})
    each = each.merge(taken, on=["cta", "place"], how="left")
    each["rest"] = each["took"].fillna(0.0) - each["share"] * each["time"]
    spread = each.groupby(["place", "launch"])["rest"].var().reset_index()
    size, of = recorded[spread["launch"]], grid[spread["launch"]]
    added = of**2 * np.maximum(1 - size / of, 0) * spread["rest"].to_numpy() / size
    error = np.sqrt(np.bincount(spread["place"], added, len(rows)))[top] / own[top]
    worst: dict[tuple[str, int], float] = {}
    for at, one in zip(top.tolist(), error.tolist(), strict=True):
        key = str(rows["kernel"].iloc[at]), int(rows["variant"].iloc[at])
        worst[key] = float(np.maximum(worst.get(key, 0.0), one))  # NaN stays
    return {key: one for key, one in worst.items() if np.isfinite(one)}
