"""Sectors and wavefronts of the warps of an access, by its addresses; and the sectors that a launch touched.

Global memory: the distinct 32-byte sectors of a warp's active lanes. Shared memory: 32 banks of 4 bytes give
one word each in a wavefront, so a warp takes one for each of the different words that its lanes want of the
busiest bank. Accesses of 8 bytes are done for half a warp at a time, those of 16 bytes for a quarter. Local
memory: a thread's 4-byte words lie 32 words apart, so that one word of all lanes fills four sectors.

The fewest are those of as many bytes, without gaps and conflicts; never more than there are.
"""

from typing import NamedTuple

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.machine.memory import GlobalMemory

__all__ = [
    "LINE",
    "NONE",
    "SECTOR",
    "WORD",
    "Distinct",
    "Figures",
    "Touched",
    "local_sectors",
    "sectors",
    "wavefronts",
]

SECTOR = 32
WORD = 4
BANKS = 32
LINE = WORD * BANKS
NOWHERE = np.iinfo(np.int64).max

Figures = tuple[Array, Array]
"""How many, and the fewest, of each row."""

_known: dict[tuple[object, ...], Figures] = {}
_MOST_KNOWN = 2048
_LARGE = 1 << 13  # bytes of addresses that are not kept


def sectors(addresses: Array, offset: int, active: Array | None, size: int) -> Figures:
    """Sectors of accesses of `size` bytes at `addresses` + `offset`, multiples of `size`. addresses: (warps,
    lanes); active: likewise, None for all."""
    return _sectors(addresses + offset, active, size)


def wavefronts(addresses: Array, offset: int, active: Array | None, size: int) -> Figures:
    """As `sectors`, of shared memory, where the same addresses come again and again."""
    if addresses.nbytes > _LARGE:
        return _wavefronts(addresses + offset, active, size)
    key = (addresses.tobytes(), len(addresses), offset, None if active is None else active.tobytes(), size)
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = _wavefronts(addresses + offset, active, size)
    return _known[key]


def local_sectors(addresses: Array, offset: int, active: Array | None, size: int) -> int:
    """As `sectors`, of local memory. addresses: within each thread's own."""
    words = ((addresses + offset) >> 2)[..., None] + np.arange(max(1, size // WORD))
    ids = words * (LANES * WORD // SECTOR) + (np.arange(LANES) * WORD // SECTOR)[:, None]
    wanted = None if active is None else np.repeat(active, ids.shape[2], axis=1)
    return int(_distinct(ids.reshape(len(ids), -1), wanted).sum())


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


# Which sectors of global memory a launch has touched, and whether one CTA alone has.

_SHIFT = SECTOR.bit_length() - 1
_NOBODY, _SEVERAL = 0, -1  # else the number of the only CTA, from 1


class Distinct(NamedTuple):
    """Sectors, each counted once: all, and those of one CTA alone. A sum over launches."""

    sectors: int = 0
    alone: int = 0

    def plus(self, other: "Distinct") -> "Distinct":
        return Distinct(self.sectors + other.sectors, self.alone + other.alone)


NONE = Distinct()


class Touched:
    """The sectors of one launch's memory that were loaded, and those that were stored."""

    def __init__(self, memory: GlobalMemory) -> None:
        self._memory = memory
        self._owners: dict[tuple[int, bool], Array] = {}
        self._ranges: dict[tuple[int, bool], tuple[int, int]] = {}  # of what was touched, in sectors

    def mark(self, addresses: Array, ctas: Array | None, *, stored: bool, adopts: bool) -> None:
        """addresses: (any,), of accesses that lie within a sector each; those outside of all memory are left
        out, as the access itself is going to be an error. ctas: the CTA of each; None if it stands for
        several. adopts: addresses may also be in memory that the launch was not given."""
        numbers = np.full(len(addresses), _SEVERAL, np.int32) if ctas is None else ctas.astype(np.int32) + 1
        self._mark(addresses, numbers, stored, adopts)

    def _mark(self, addresses: Array, numbers: Array, stored: bool, adopts: bool) -> None:
        if not addresses.size:
            return
        low, high = int(addresses.min()), int(addresses.max())
        allocation = self._memory.around(low - self._memory.base)
        if allocation is None:
            if adopts and self._memory.adopt(addresses):
                self._mark(addresses, numbers, stored, adopts)
            return
        if high >= allocation.end:  # in several
            inside = addresses < allocation.end
            for part in (inside, ~inside):
                self._mark(addresses[part], numbers[part], stored, adopts)
            return
        first = allocation.start >> _SHIFT
        key = allocation.start, stored
        if key not in self._owners:
            self._owners[key] = np.zeros((allocation.end >> _SHIFT) + 1 - first, np.int32)
        self._widen(key, (low >> _SHIFT) - first, (high >> _SHIFT) - first)
        _own(self._owners[key], (addresses >> _SHIFT) - first, numbers)

    def _widen(self, key: tuple[int, bool], low: int, high: int) -> None:
        before = self._ranges.get(key, (low, high))
        self._ranges[key] = min(low, before[0]), max(high, before[1])

    def distinct(self, *, stored: bool) -> Distinct:
        """Sectors that were loaded, or stored."""
        every = alone = 0
        for key, (low, high) in self._ranges.items():
            if key[1] is stored:
                owners = self._owners[key][low : high + 1]
                every += int(np.count_nonzero(owners))
                alone += int(np.count_nonzero(owners > _NOBODY))
        return Distinct(every, alone)


def _own(owners: Array, places: Array, numbers: Array) -> None:
    """Note who touches each place; places may come several times."""
    before = owners[places]
    is_new = before != numbers
    if not is_new.any():
        return
    places, numbers, before = places[is_new], numbers[is_new], before[is_new]
    owners[places] = np.where(before == _NOBODY, numbers, _SEVERAL)
    is_taken = owners[places] != numbers  # by others, before or in the same access
    owners[places[is_taken]] = _SEVERAL
