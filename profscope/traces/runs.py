"""Runs: successive rows of a span table that one warp recorded. Packing and drawing both go run by run."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["RUN_COLUMNS", "column_run_starts", "run_starts", "stable_order"]

Ints = NDArray[np.int64]
RUN_COLUMNS = ("launch", "cta", "sm", "warp")


def run_starts(df: pd.DataFrame) -> Ints:
    """The rows at which another warp's spans begin, int64 of shape (runs,)."""
    return column_run_starts({name: df[name].to_numpy() for name in RUN_COLUMNS})


def column_run_starts(columns: Mapping[str, NDArray[np.integer]]) -> Ints:
    """As `run_starts`, of columns by name."""
    change = np.ones(len(columns["launch"]), np.bool_)
    change[1:] = False
    for name in RUN_COLUMNS:
        values = columns[name]
        change[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(change)


def stable_order(group: Ints) -> Ints:
    """The rows, group by group, in order within each; groups are numbered from 0."""
    # numpy's stable sort is a radix sort for 16-bit keys: many times faster than for 64-bit ones.
    few = int(group.max(initial=0)) < 1 << 16
    return np.argsort(group.astype(np.uint16) if few else group, kind="stable")
