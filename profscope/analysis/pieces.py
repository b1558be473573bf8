"""Spans a piece at a time: so many rows fit a core's caches, and pieces are looked at side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.threads import worker_pool

__all__ = ["each_piece", "even_pieces", "pieces"]

_ROWS: Final = 1 << 16
"""Rows of a piece; a few more where a warp's spans do not end there. With fewer, steps are so short
that threads take turns more often than they work: the same corrections took twice the time."""
_NEAR: Final = 1 << 10
"""Rows in which an outermost span is looked for at a time."""

Ints = NDArray[np.int64]
S = TypeVar("S")
T = TypeVar("T")


def even_pieces(count: int) -> list[slice]:
    """So many rows, cut wherever it may be."""
    return [slice(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS)] or [slice(0, 0)]


def pieces(df: pd.DataFrame) -> list[slice]:
    """The rows of a span table, cut where a warp's outermost span begins: so no span is in another piece than
    its parent. One piece where spans do stand elsewhere, as in other tools' traces."""
    parent, depth, count = df["parent"].to_numpy(), df["depth"].to_numpy(), len(df)
    if count <= _ROWS:
        return [slice(0, count)]
    begins = [0]
    for at in range(_ROWS, count, _ROWS):
        begin = _next_root(parent, depth, max(at, begins[-1]))
        if begin > begins[-1]:
            begins.append(begin)
    ends = [*begins[1:], count]
    cut = [slice(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]
    whole = each_piece(lambda part: _is_whole(parent[part], part), cut)
    return cut if all(whole) else [slice(0, count)]


def _next_root(parent: Ints, depth: NDArray[np.integer[Any]], at: int) -> int:
    """The first outermost span from row `at` on, the count of rows where there is none."""
    while at < len(parent):
        near = slice(at, at + _NEAR)
        roots = np.flatnonzero((depth[near] == 0) & (parent[near] < 0))
        if len(roots):
            return at + int(roots[0])
        at += _NEAR
    return len(parent)


def _is_whole(parent: Ints, part: slice) -> bool:
    before = parent[parent < part.start]
    return parent.max() < part.stop and not (before >= 0).any()


def each_piece(work: Callable[[S], T], parts: Sequence[S]) -> list[T]:
    """What `work` makes of each piece, or of what there is for each, in their order."""
    if len(parts) == 1:  # where threads would only cost their beginning
        return [work(parts[0])]
    with worker_pool() as pool:
        return list(pool.map(work, parts))
