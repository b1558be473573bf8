"""Rows numbered by what tells them apart, a piece at a time: no array of all rows' keys is ever made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.pieces import each_piece

__all__ = ["Numbered", "Numbers", "numbers_by"]

Ints = NDArray[np.int64]
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
