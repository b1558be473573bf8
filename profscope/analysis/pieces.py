"""Spans a piece at a time: so many rows fit a core's caches, and pieces are looked at side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
import pandas as pd

from profscope.analysis.span_rows import Ints
from profscope.threads import worker_pool

__all__ = ["each_piece", "pieces"]

_ROWS: Final = 1 << 16

S = TypeVar("S")
T = TypeVar("T")


def pieces(df: pd.DataFrame) -> list[slice]:
    """The rows of a span table, cut where a warp's outermost span begins: so no span is in another piece than
    its parent. One piece where spans do stand elsewhere, as in other tools' traces."""
    parent, count = df["parent"].to_numpy(), len(df)
    if count <= _ROWS:
        return [slice(0, count)]
    roots = np.flatnonzero((df["depth"].to_numpy() == 0) & (parent < 0))
    near = np.searchsorted(roots, np.arange(_ROWS, count, _ROWS))
    begins = np.unique(np.append(0, roots[near[near < len(roots)]])).tolist()
    cut = [slice(begin, end) for begin, end in zip(begins, [*begins[1:], count], strict=True)]
    return cut if all(_is_whole(parent[part], part) for part in cut) else [slice(0, count)]


def _is_whole(parent: Ints, part: slice) -> bool:
    return not ((parent >= part.stop) | ((parent >= 0) & (parent < part.start))).any()


def each_piece(work: Callable[[S], T], parts: Sequence[S]) -> list[T]:
    """What `work` makes of each piece, or of what there is for each, in their order."""
    if len(parts) == 1:  # where threads would only cost their beginning
        return [work(parts[0])]
    with worker_pool() as pool:
        return list(pool.map(work, parts))
