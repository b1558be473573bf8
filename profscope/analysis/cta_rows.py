"""When the CTAs of launches ran, and on which SM: the one place that asks for tails, waves and idle SMs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import Ints, grid_ctas
from profscope.schema import Tables

__all__ = ["ctas_of", "ctas_of_spans", "every_cta"]

_COLUMNS = ["launch", "cta", "sm", "start_ns", "end_ns", "start_cycle", "cycles"]


def every_cta(tables: Tables, launches: pd.DataFrame) -> pd.DataFrame | None:
    """`ctas_of` some launches of the tables; None if a CTA of one of their grids is not known."""
    ctas = ctas_of(tables)
    ctas = ctas[ctas["launch"].isin(launches["launch"])]
    known = launches["launch"].map(ctas["launch"].value_counts()).fillna(0).to_numpy()
    return ctas if (known >= np.maximum(grid_ctas(launches), 1)).all() else None


def ctas_of(tables: Tables) -> pd.DataFrame:
    """launch, cta, sm, start_ns, end_ns, start_cycle and cycles of each known CTA, in order of launch.

    Those of `tables.ctas`; without such a table, as in another tool's trace, those of the spans.
    """
    if len(tables.ctas):
        return tables.ctas.rename(columns={"duration_cycles": "cycles"})[_COLUMNS]
    return ctas_of_spans(tables.df, np.array([0]), np.array([len(tables.df)]))[0]


def ctas_of_spans(df: pd.DataFrame, begins: Ints, counts: Ints) -> tuple[pd.DataFrame, Ints]:
    """The CTAs of ranges of rows of the span table, in their order; and the first row of each."""
    depth = df["depth"].to_numpy()
    rows = np.concatenate(
        [b + np.flatnonzero(depth[b : b + n] == 0) for b, n in zip(begins, counts, strict=True)]
    )
    launch, cta = df["launch"].to_numpy()[rows], df["cta"].to_numpy()[rows]
    change = np.ones(len(rows), np.bool_)
    change[1:] = (launch[1:] != launch[:-1]) | (cta[1:] != cta[:-1])
    at = np.flatnonzero(change)
    start, cycle = df["start_ns"].to_numpy()[rows], df["start_cycle"].to_numpy()[rows]
    end = start + df["duration_ns"].to_numpy()[rows]
    if not len(at):
        return pd.DataFrame({name: np.zeros(0, np.int64) for name in _COLUMNS}), at
    start_cycle = np.minimum.reduceat(cycle, at)
    table = pd.DataFrame(
        {
            "launch": launch[at],
            "cta": cta[at],
            "sm": df["sm"].to_numpy()[rows[at]],
            "start_ns": np.minimum.reduceat(start, at),
            "end_ns": np.maximum.reduceat(end, at),
            "start_cycle": start_cycle,
            "cycles": np.maximum.reduceat(cycle + df["duration_cycles"].to_numpy()[rows], at) - start_cycle,
        }
    )
    return table, rows[at]
