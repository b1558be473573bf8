"""How unequal numbers are: their sum, least and greatest, and the squares of their distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Spread", "no_spread", "spread_of", "together", "united"]

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


def spread_of(
    values: npt.NDArray[Any], present: Flags | None, floats: Floats | None = None, total: Floats | None = None
) -> Spread:
    """values: shape (sets, numbers), none below 0, and 0 where none is present. present: which are; None for
    all. floats, total: the same as float64, and their sums, where they are known. The result's shape is
    (sets,).

    The squares follow from those of the numbers: relative to those of the total, they are off by about 1e-16.
    """
    if not values.shape[1]:
        return no_spread(values.shape[:1])
    floats = values.astype(np.float64) if floats is None else floats
    total = floats.sum(axis=1) if total is None else total
    if present is None:
        count, least = np.full(len(values), float(values.shape[1])), values.min(axis=1)
    else:
        count = present.sum(axis=1, dtype=np.float64)
        least = np.where(present, floats, np.inf).min(axis=1)
    squares = np.einsum("sn,sn->s", floats, floats) - total * total / np.maximum(count, 1)
    return Spread(count, total, np.maximum(squares, 0.0), least, values.max(axis=1))


def together(one: Spread, other: Spread) -> Spread:
    """Of the sets of both."""
    return united(Spread(*(np.stack(parts, axis=-1) for parts in zip(one, other, strict=True))))


def united(spread: Spread) -> Spread:
    """Sets along the last axis as one each.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
    (1979), equation 2.1.
    """
    items, total = spread.items.sum(axis=-1), spread.total.sum(axis=-1)
    mean = total / np.maximum(items, 1)
    apart = spread.total / np.maximum(spread.items, 1) - mean[..., None]
    return Spread(
        items,
        total,
        (spread.squares + apart * apart * spread.items).sum(axis=-1),
        spread.least.min(axis=-1),
        spread.greatest.max(axis=-1),
    )
