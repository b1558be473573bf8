"""Spans a piece at a time: so many rows fit a core's caches, and threads work on several pieces at once.

Rows are numbered by what tells them apart without an array of all rows' keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, starmap
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.threads import worker_pool

__all__ = ["PIECE_ROWS", "Numbers", "each_piece", "even_pieces", "numbers_by", "pieces", "whole_pieces"]

PIECE_ROWS: Final = 1 << 18
"""Rows of a piece; a few more where a warp's spans do not end there. With fewer, steps are so short that
threads take turns more often than they work: with a quarter of it eight threads took 1.7 times as long to
make tracks, and a first screen on two cores took a tenth longer."""
_NEAR: Final = 1 << 10
"""Rows in which an outermost span is looked for at a time."""

Ints = NDArray[np.int64]
S = TypeVar("S")
T = TypeVar("T")


def even_pieces(count: int) -> list[slice]:
    """So many rows, cut wherever it may be."""
    return [slice(at, min(at + PIECE_ROWS, count)) for at in range(0, count, PIECE_ROWS)] or [slice(0, 0)]


def whole_pieces(begins: Ints, count: int) -> list[slice]:
    """So many rows, cut where runs of rows begin; begins: their first rows, ascending, 0 among them."""
    near = np.searchsorted(begins, np.arange(PIECE_ROWS, count, PIECE_ROWS))
    cuts = np.unique(begins[near[near < len(begins)]]).tolist()
    return list(starmap(slice, pairwise([0, *cuts, count])))


def pieces(df: pd.DataFrame) -> list[slice]:
    """The rows of a span table, cut where a warp's outermost span begins: so no span is in another piece than
    its parent. One piece where spans do stand elsewhere, as in other tools' traces."""
    parent, depth, count = df["parent"].to_numpy(), df["depth"].to_numpy(), len(df)
    if count <= PIECE_ROWS:
        return [slice(0, count)]
    begins = [0]
    for at in range(PIECE_ROWS, count, PIECE_ROWS):
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


Numbers = NDArray[np.unsignedinteger[Any]]

_MOST_KEYS: Final = 1 << 22
"""Up to here a table with a place for each key is faster than one of hashes."""


class Numbered(NamedTuple):
    """number: by row, of the narrowest unsigned dtype that holds them, in order of first appearance. first:
    the row where each number first appears, ascending; key: the key there."""

    number: Numbers
    first: Ints
    key: Ints


def numbers_by(
    key_of: Callable[[slice], NDArray[np.integer[Any]]], parts: Sequence[slice], size: int
) -> Numbered:
    """Number the rows of a table by their keys.

    key_of: the keys of a piece's rows, 0 or more and below `size`; it is asked for several side by side.
    parts: `pieces` of the table, or `even_pieces`.
    """
    rows, narrow = parts[-1].stop, np.min_scalar_type(max(part.stop - part.start for part in parts))
    within: Numbers = np.empty(rows, narrow)  # a row's number among those of its piece

    def look(part: slice) -> tuple[Ints, Ints]:
        key = key_of(part)
        within[part], first = _by_hash(key) if size > _MOST_KEYS else _by_table(key, size, narrow)
        return first + part.start, key[first].astype(np.int64)

    found = each_piece(look, parts)
    first, keys = (np.concatenate(each) for each in zip(*found, strict=True))
    place, new = _by_hash(keys)
    narrowest = np.min_scalar_type(len(new))
    number: Numbers = np.empty(rows, narrowest)
    ends = np.cumsum([len(each) for each, _ in found])[:-1]

    def put(piece: tuple[slice, Ints]) -> None:
        part, numbers = piece
        number[part] = numbers.astype(narrowest)[within[part]]

    each_piece(put, list(zip(parts, np.split(place, ends), strict=True)))
    return Numbered(number, first[new], keys[new])


def _by_table(key: NDArray[np.integer[Any]], size: int, narrow: np.dtype[Any]) -> tuple[Numbers, Ints]:
    """The number of each row of a piece, and the row where each first appears."""
    rows = np.arange(len(key), dtype=narrow)
    table: Numbers = np.empty(size, narrow)
    table[key[::-1]] = rows[::-1]  # the last one put there stays
    first = np.flatnonzero(table[key] == rows)
    table[key[first]] = rows[: len(first)]
    return table[key], first


def _by_hash(key: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """As `_by_table`, of any keys."""
    number, _ = pd.factorize(key)
    before = np.maximum.accumulate(np.append(-1, number))[:-1]
    return number, np.flatnonzero(number > before)
