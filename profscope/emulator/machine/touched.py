"""Which sectors of global memory a launch has touched, and whether one CTA alone has."""

from typing import NamedTuple

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.machine.memory import GlobalMemory
from profscope.emulator.machine.transactions import SECTOR

__all__ = ["NONE", "Distinct", "Touched"]

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
    """Of one launch's memory the sectors that were loaded, and those that were stored."""

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
        """What was loaded, or stored."""
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
