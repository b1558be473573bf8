"""In which stages of a pipelined loop the spans of each site stand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import Ints

__all__ = ["stages_of"]


def stages_of(df: pd.DataFrame, site: Ints, count: int) -> list[str]:
    """By site, "steady" or "prologue, steady"; "" where its ops have none. site, count: as `sites` gives."""
    if "stage" not in df.columns or not isinstance(df["stage"].dtype, pd.CategoricalDtype):
        return [""] * count
    names = [str(name) for name in df["stage"].cat.categories]
    codes = df["stage"].cat.codes.to_numpy().astype(np.int64)
    known = np.flatnonzero(codes >= 0)
    each = np.bincount(site[known] * len(names) + codes[known], minlength=count * len(names))
    return [
        ", ".join(name for name, seen in zip(names, own, strict=True) if seen)
        for own in each.reshape(count, len(names))
    ]
