"""Questions about the values that probes saw (the pass value-probe)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profscope.errors import OptionError
from profscope.schema import Tables

__all__ = ["first_nan"]


def first_nan(tables: Tables) -> pd.Series[Any] | None:
    """The row of the span table whose values were the first with a NaN, None if there was none.

    First: of the earliest launch, in the order of start_ns; of rows that start together, the upper one.
    Raises OptionError where no value was probed.
    """
    df = tables.df
    if "nans" not in df:
        raise OptionError("no values were probed; add a pass, as in instrument=['value-probe{classes=mma}']")
    rows = df[df["nans"].fillna(0) > 0]
    rows = rows[rows["launch"] == rows["launch"].min()]
    return None if rows.empty else df.loc[rows["start_ns"].idxmin()]
