"""Spans a piece at a time: so many rows fit a core's caches, and pieces are looked at side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pandas as pd

from profscope.threads import worker_pool

if TYPE_CHECKING:  # whose numbering is by pieces, too
    from profscope.analysis.span_rows import Ints

__all__ = ["each_piece", "even_pieces", "pieces"]

_ROWS: Final = 1 << 16
"""Rows of a piece; a few more where a warp's spans do not end there."""

S = TypeVar("S")
T = TypeVar("T")


def even_pieces(count: int) -> list[slice]:
    """So many rows, cut wherever it may be."""
    return [slice(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS)] or [slice(0, 0)]


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
