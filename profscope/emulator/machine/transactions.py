"""How many sectors and wavefronts the warps of an access take, by its addresses.

Global memory: the distinct 32-byte sectors of a warp's active lanes. Shared memory: 32 banks of 4 bytes give
one word each in a wavefront, so a warp takes one for each of the different words that its lanes want of the
busiest bank. Accesses of 8 bytes are done for half a warp at a time, those of 16 bytes for a quarter. Local
memory: a thread's 4-byte words lie 32 words apart, so that one word of all lanes fills four sectors.

The fewest are those of as many bytes, without gaps and conflicts; never more than there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from profscope.emulator.arrays import LANES, Array

__all__ = ["SECTOR", "Figures", "Pattern", "local_sectors", "sectors", "wavefronts"]

SECTOR = 32
WORD = 4
BANKS = 32
LINE = WORD * BANKS
NOWHERE = np.iinfo(np.int64).max

Figures = tuple[Any, Any]
"""How many, and the fewest, of each row; one number each where all rows have the same."""


@dataclass(frozen=True)
class Pattern:
    """Addresses without where they begin, where each warp's are the first one's plus a number.

    All are relative to the first address. row: those of a warp, (1, lanes). low, high: the least and the
    greatest. bits: all bits in which addresses differ, above the lowest; apart: those of warps' first ones.
    """

    row: Array
    low: int
    high: int
    bits: int
    apart: int

    @classmethod
    def of(cls, rows: Array) -> "Pattern | None":
        """rows: (warps, lanes). None if warps differ in more than a number."""
        if len(rows) > 1 and not _are_shifted(rows):
            return None
        first = rows[:, 0]
        apart, row = first - first[0], rows[:1] - first[0]
        bits = int(np.bitwise_or.reduce(apart))
        return cls(
            row=row,
            low=int(apart.min()) + int(row.min()),
            high=int(apart.max()) + int(row.max()),
            bits=bits | int(np.bitwise_or.reduce(row, axis=None)),
            apart=bits,
        )

    def sectors(self, first: int, size: int) -> Figures | None:
        """As `sectors`, of all threads, the first of which accesses this address; None if warps differ."""
        if self.apart & (SECTOR - 1):
            return None
        row = self.row + (first & (SECTOR - 1))
        return _remembered((row.tobytes(), None, size, SECTOR), row, None, size, _sectors)


Count = Callable[[Array, Array | None, int], Figures]

_known: dict[tuple[object, ...], Figures] = {}
_MOST_KNOWN = 2048
_LARGE = 1 << 13  # bytes of addresses that are not kept


def sectors(addresses: Array, offset: int, active: Array | None, size: int) -> Figures:
    """Of accesses of `size` bytes at `addresses` + `offset`, multiples of `size`. addresses: (warps, lanes);
    active: likewise, None for all."""
    return _by_likeness(addresses, offset, active, size, SECTOR, _sectors)


def wavefronts(addresses: Array, offset: int, active: Array | None, size: int) -> Figures:
    """As `sectors`, of shared memory, where the same addresses come again and again."""
    if addresses.nbytes > _LARGE:
        return _by_likeness(addresses, offset, active, size, LINE, _wavefronts)
    key = (addresses.tobytes(), len(addresses), offset, None if active is None else active.tobytes(), size)
    return _remembered(key, addresses + offset, active, size, _wavefronts)


def local_sectors(addresses: Array, offset: int, active: Array | None, size: int) -> int:
    """As `sectors`, of local memory. addresses: within each thread's own."""
    words = ((addresses + offset) >> 2)[..., None] + np.arange(max(1, size // WORD))
    ids = words * (LANES * WORD // SECTOR) + (np.arange(LANES) * WORD // SECTOR)[:, None]
    wanted = None if active is None else np.repeat(active, ids.shape[2], axis=1)
    return int(_distinct(ids.reshape(len(ids), -1), wanted).sum())


def _by_likeness(
    addresses: Array, offset: int, active: Array | None, size: int, period: int, count: Count
) -> Figures:
    """Rows that differ by a multiple of the period are alike; if all are, one is counted."""
    if active is not None:
        full = active.all(axis=1)
        if full.all():
            active = None
        elif 2 * np.count_nonzero(full) > len(full):
            some = _by_likeness(addresses[full], offset, None, size, period, count)
            rest = _by_likeness(addresses[~full], offset, active[~full], size, period, count)
            return _put_together(full, some[0], rest[0]), _put_together(full, some[1], rest[1])
    first = addresses[:, 0]
    if len(addresses) > 1:
        apart = first - first[0]
        is_one = (
            not np.bitwise_or.reduce(apart) & (period - 1)
            and (active is None or (active == active[0]).all())
            and _are_shifted(addresses)
        )
        if not is_one:
            return count(addresses + offset, active, size)
    row = addresses[:1] - first[0] + ((int(first[0]) + offset) & (period - 1))
    mask = None if active is None else active[:1]
    key = (row.tobytes(), None if mask is None else mask.tobytes(), size, period)
    return _remembered(key, row, mask, size, count)


def _are_shifted(rows: Array) -> bool:
    """Whether each row is the first one plus a number."""
    lanes = rows.shape[1]
    flat = rows.reshape(-1)
    steps = flat[lanes:] - flat[:-lanes]  # from each row to the next: alike within a row
    changes = steps[1:] != steps[:-1]
    return bool(np.count_nonzero(changes) == np.count_nonzero(changes[lanes - 1 :: lanes]))


def _put_together(full: Array, some: Any, rest: Any) -> Array:
    """Figures of rows: of those that are `full`, and of the others."""
    whole = np.empty(len(full), np.int64)
    whole[full], whole[~full] = some, rest
    return whole


def _remembered(
    key: tuple[object, ...], addresses: Array, active: Array | None, size: int, count: Count
) -> Figures:
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = _brief(count(addresses, active, size))
    return found


def _brief(figures: Figures) -> Figures:
    """With one number for all rows where they have the same."""
    taken, fewest = figures
    is_one = (taken == taken[0]).all() and (fewest == fewest[0]).all()
    return (int(taken[0]), int(fewest[0])) if is_one else figures


def _sectors(addresses: Array, active: Array | None, size: int) -> Figures:
    return _with_fewest(_distinct(addresses >> 5, active), addresses, active, size, SECTOR)


def _wavefronts(addresses: Array, active: Array | None, size: int) -> Figures:
    lanes, parts = addresses.shape[1], max(1, size // WORD)
    at_a_time = min(lanes, LINE // max(WORD, size))
    words = ((addresses >> 2)[..., None] + np.arange(parts)).reshape(-1, at_a_time * parts)
    if active is not None:
        words = np.where(np.repeat(active, parts, axis=1).reshape(words.shape), words, NOWHERE)
    words = np.sort(words, axis=1)
    is_new = words != NOWHERE
    is_new[:, 1:] &= words[:, 1:] != words[:, :-1]
    step = np.arange(len(words))[:, None]
    banks = (step * BANKS + (words & (BANKS - 1)))[is_new]
    busiest = np.bincount(banks, minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    taken = busiest.reshape(len(addresses), -1).sum(axis=1)
    return _with_fewest(taken, addresses, active, size, LINE)


def _with_fewest(taken: Array, addresses: Array, active: Array | None, size: int, each: int) -> Figures:
    lanes = addresses.shape[1] if active is None else active.sum(axis=1)
    fewest = np.minimum(taken, -(-lanes * size // each))
    return taken, np.broadcast_to(fewest, taken.shape)


def _distinct(ids: Array, active: Array | None) -> Array:
    """How many different ids the active ones of each row are."""
    if active is not None:
        ids = np.where(active, ids, NOWHERE)
    steps = ids[:, 1:] - ids[:, :-1]
    if steps.size and steps.min() < 0:
        ids = np.sort(ids, axis=1)
        steps = ids[:, 1:] - ids[:, :-1]
    count = 1 + np.count_nonzero(steps, axis=1)
    return count if active is None else count - (ids[:, -1] == NOWHERE)
