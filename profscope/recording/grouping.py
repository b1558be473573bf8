"""Entries of a launch log put together, by what they have in common: a few steps of C's for each launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.raw import ORDINARY, Mark

__all__ = ["Group", "grouped"]

Ints = npt.NDArray[np.int64]
_FACTORS: Final = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x27D4EB2F165667C5,
)  # odd, of xxHash


class Group(NamedTuple):
    """Launches of one program, route and filling, L of them, all of them an autotuner's trials or none.
    indices: in the session; offsets: in the filling; each of shape (L,)."""

    program: Any
    route: Any
    filling: Any
    indices: Ints
    offsets: Ints
    marks: Sequence[Mark]


def grouped(entries: Sequence[tuple[Any, Any, Any, int, Mark]], first: int) -> Iterator[Group]:
    """entries: see `LaunchLog`; first: the index of the first one."""
    programs, routes, fillings, offsets, marks = zip(*entries, strict=True)
    count = len(entries)
    places = np.fromiter(offsets, np.int64, count)
    alone = marks.count(ORDINARY) == count
    trial = np.zeros(count, np.int64) if alone else np.fromiter(map(itemgetter(0), marks), np.int64, count)
    ids = [np.fromiter(map(id, column), np.int64, count) for column in (programs, routes, fillings)]
    for at in _alike(*ids, trial):
        some = [ORDINARY] * len(at) if alone else [marks[each] for each in at.tolist()]
        one = int(at[0])
        yield Group(programs[one], routes[one], fillings[one], first + at, places[at], some)


def _alike(*columns: Ints) -> list[Ints]:
    """Positions with the same numbers in all columns, those of each kind in order."""
    code = np.zeros(len(columns[0]), np.uint64)
    for column, factor in zip(columns, _FACTORS, strict=True):  # one sort, and not one a column
        code += column.astype(np.uint64) * np.uint64(factor)
    order = np.argsort(code, kind="stable")
    other = np.zeros(len(order) - 1, np.bool_)
    for column in columns:  # whatever has the same code
        there = column[order]
        other |= there[1:] != there[:-1]
    return np.split(order, np.flatnonzero(other) + 1)
