"""How unequal numbers are: their sum, least and greatest, and the squares of their distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Spread", "no_spread", "spread_of", "together"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Spread(NamedTuple):
    """Of several sets of numbers, arrays of one shape. items: how many a set has; squares: of the distances
    from the set's mean, summed up. Of an empty set all are 0, but least, which is infinite."""

    items: Floats
    total: Floats
    squares: Floats
    least: Floats
    greatest: Floats


def no_spread(shape: tuple[int, ...]) -> Spread:
    """Of empty sets."""
    return Spread(*(np.full(shape, value) for value in (0.0, 0.0, 0.0, np.inf, 0.0)))


def spread_of(values: npt.NDArray[Any], present: Flags | None, floats: Floats | None = None) -> Spread:
    """values: shape (sets, numbers), none below 0, and 0 where none is present. present: which are; None for
    all. floats: the same as float64, if there is such an array. The result has shape (sets,).

    The squares follow from those of the numbers: relative to `total`, they are off by about 1e-16.
    """
    if not values.shape[1]:
        return no_spread(values.shape[:1])
    floats = values.astype(np.float64) if floats is None else floats
    if present is None:
        count, least = np.full(len(values), float(values.shape[1])), values.min(axis=1)
    else:
        count = present.sum(axis=1, dtype=np.float64)
        least = np.where(present, floats, np.inf).min(axis=1)
    total = floats.sum(axis=1)
    squares = np.einsum("sn,sn->s", floats, floats) - total * total / np.maximum(count, 1)
    return Spread(count, total, np.maximum(squares, 0.0), least, values.max(axis=1))


def together(one: Spread, other: Spread) -> Spread:
    """Of the sets of both.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
    (1979), equation 2.1.
    """
    count = one.items + other.items
    apart = one.total / np.maximum(one.items, 1) - other.total / np.maximum(other.items, 1)
    between = apart * apart * one.items * other.items / np.maximum(count, 1)
    return Spread(
        count,
        one.total + other.total,
        one.squares + other.squares + between,
        np.minimum(one.least, other.least),
        np.maximum(one.greatest, other.greatest),
    )
