"""Global memory: the process's own, limited to the launch's tensors.

Kernels address host memory directly. Before any access its addresses are checked against the allocations: of
the pointer argument that the address was computed from, if known, else of all. An address that was computed
from no pointer argument, as from a table, may also be in memory that is not an argument of the launch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profscope.emulator.arrays import Array
from profscope.errors import EmulatorError

__all__ = [
    "LOCAL_WINDOW",
    "SHARED_WINDOW",
    "Allocation",
    "GlobalMemory",
    "MemoryViolationError",
    "combine_in_turn",
]

# Where generic addresses of shared and local memory start: beyond any address of a process.
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57


@dataclass(frozen=True, eq=False)
class Allocation:
    """`size` bytes of host memory from address `start` on; `owner` keeps them alive.

    `base` is the address the kernel was given, which offsets in messages count from.
    """

    name: str
    start: int
    size: int
    base: int
    owner: Any = None

    @property
    def end(self) -> int:
        return self.start + self.size


class MemoryViolationError(EmulatorError):
    """A bad address, before the machine has said where: `bad` marks the threads, as in `addresses`."""

    def __init__(self, message: str, addresses: Array, bad: Array) -> None:
        super().__init__(message)
        self.addresses = addresses
        self.bad = bad


class _Window:
    """Presents a range of addresses to numpy; only what was checked is touched."""

    def __init__(self, start: int, size: int) -> None:
        self.__array_interface__ = {"data": (start, False), "shape": (size,), "typestr": "|u1", "version": 3}


class GlobalMemory:
    """The allocations of one launch. `pointers` gives the allocation of each kernel parameter, or None.

    `elsewhere` finds what else there is; it takes long, and is asked only where an address is nowhere else.
    """

    def __init__(
        self,
        allocations: Iterable[Allocation],
        pointers: list[Allocation | None],
        elsewhere: Callable[[], Iterable[Allocation]] = tuple,
    ) -> None:
        self.pointers = pointers
        self.elsewhere = elsewhere
        self.lay_out(allocations)

    def lay_out(self, allocations: Iterable[Allocation]) -> None:
        """Make the window that all of these can be seen through."""
        self.allocations = sorted((a for a in allocations if a.size), key=lambda a: a.start)
        self.base = min((a.start for a in self.allocations), default=0) // 16 * 16
        end = max((a.end for a in self.allocations), default=0)
        size = max(0, end - self.base + 15) // 16 * 16
        window = np.asarray(_Window(self.base, size)) if size else np.zeros(16, np.uint8)
        self.views = {
            1: window,
            2: window.view(np.int16),
            4: window.view(np.int32),
            8: window.view(np.int64),
            16: window.view(np.complex128),
        }
        self.starts = np.array([a.start for a in self.allocations], np.int64) - self.base
        self.ends = np.array([a.end for a in self.allocations], np.int64) - self.base

    def offsets(
        self,
        addresses: Array,
        offset: int,
        size: int,
        pointers: frozenset[int] = frozenset(),
    ) -> Array:
        """Checked offsets into the views, in bytes, of accesses of `size` bytes at `addresses` + `offset`.

        `pointers` are the parameters that the addresses were computed from. The views may change. Raises
        MemoryViolationError with the error of the first bad address.
        """
        relative = addresses - np.int64(self.base - offset)
        low, high = int(relative.min()), int(relative.max()) + size
        bits = int(np.bitwise_or.reduce(relative, axis=None)) if size > 1 else 0
        pointer = next(iter(pointers)) if len(pointers) == 1 else None
        if bits & (size - 1):
            raise self.misaligned(relative, size, pointer)
        allocation = self.pointers[pointer] if pointer is not None else self.around(low)
        if (
            allocation is not None
            and low >= allocation.start - self.base
            and high <= allocation.end - self.base
        ):
            return relative
        if pointer is not None and allocation is not None:
            bad = (relative < allocation.start - self.base) | (relative + size > allocation.end - self.base)
            raise self.outside(relative, bad, size, allocation)
        inside = self.is_inside(relative, size)
        if inside.all():
            return relative
        is_known = pointers and all(self.pointers[number] is not None for number in pointers)
        if is_known or not self.adopt((relative + self.base)[~inside]):
            raise self.outside(relative, ~inside, size, None)
        return self.offsets(addresses, offset, size, pointers)

    def is_inside(self, relative: Array, size: int) -> Array:
        """Whether an access of `size` bytes stays within one allocation."""
        if not len(self.starts):
            return np.zeros(relative.shape, np.bool_)
        index = np.searchsorted(self.starts, relative, side="right") - 1
        return (index >= 0) & (relative + size <= self.ends[np.maximum(index, 0)])

    def adopt(self, addresses: Array) -> bool:
        """Add the allocations of elsewhere that some of the addresses lie in; whether there were any."""
        wanted = np.sort(addresses, axis=None)
        known = {a.start for a in self.allocations}
        new = {}
        for allocation in self.elsewhere():
            first = np.searchsorted(wanted, allocation.start)
            if first < len(wanted) and wanted[first] < allocation.end and allocation.start not in known:
                new[allocation.start] = allocation
        if new:
            self.lay_out([*self.allocations, *new.values()])
        return bool(new)

    def around(self, relative: int) -> Allocation | None:
        """The allocation that holds an offset from the base."""
        index = int(np.searchsorted(self.starts, relative, side="right")) - 1
        if index < 0 or relative >= self.ends[index]:
            return None
        return self.allocations[index]

    def misaligned(self, relative: Array, size: int, pointer: int | None) -> MemoryViolationError:
        bad = relative & (size - 1) != 0
        first = int(relative[bad][0])
        where = self.describe(first, self.pointers[pointer] if pointer is not None else None)
        return MemoryViolationError(f"misaligned address: {size} bytes at {where}", relative, bad)

    def outside(
        self, relative: Array, bad: Array, size: int, allocation: Allocation | None
    ) -> MemoryViolationError:
        first = int(relative[bad][0])
        return MemoryViolationError(
            f"out of bounds: {size} bytes at {self.describe(first, allocation)}", relative, bad
        )

    def describe(self, relative: int, allocation: Allocation | None) -> str:
        """An address in words: the tensor it is in, or nearest to, and the offset from its pointer."""
        address = relative + self.base
        nearest = allocation or min(
            self.allocations, key=lambda a: max(a.start - address, address - a.end + 1, 0), default=None
        )
        if nearest is None:
            return f"address {address:#x}; the launch was given no memory"
        verb = (
            "" if allocation or nearest.start <= address < nearest.end else "unallocated memory, nearest to "
        )
        return (
            f"{verb}{nearest.name!r} byte offset {address - nearest.base} "
            f"(its memory: {nearest.start - nearest.base} to {nearest.end - nearest.base})"
        )


# Read-modify-write by many threads at once, as if they took turns in the order of their numbers.


def combine_in_turn(
    memory: Array,
    places: Array,
    combine: Callable[..., Array],
    values: Sequence[Array],
    wants_old: bool,
) -> Array:
    """memory[p] = combine(memory[p], value), for each p of `places` in order; returns what each found there.

    `places` and `values` are one-dimensional. Without `wants_old` the result is meaningless.
    """
    if not wants_old and isinstance(combine, np.ufunc):
        # Not on `memory` itself: it spans the address space, and numpy copies what may overlap its arguments.
        distinct, turn_of = np.unique(places, return_inverse=True)
        result = memory[distinct]
        combine.at(result, turn_of, values[0])
        memory[distinct] = result
        return values[0]
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    first = np.flatnonzero(np.r_[True, sorted_places[1:] != sorted_places[:-1]])
    counts = np.diff(np.r_[first, len(places)])
    if combine is np.add and memory.dtype.kind in "iu":
        return _add_in_turn(memory, places, values[0], order, first, counts)
    old = np.empty(len(places), memory.dtype)
    for turn in range(int(counts.max())):  # the threads that are the turn-th at their place
        now = order[first[counts > turn] + turn]
        at = places[now]
        old[now] = memory[at]
        memory[at] = combine(old[now], *(v[now] for v in values))
    return old


def _add_in_turn(
    memory: Array, places: Array, value: Array, order: Array, first: Array, counts: Array
) -> Array:
    """Integer addition is associative: sums of what came before, per place, give every thread's old value."""
    sums = np.cumsum(value[order], dtype=memory.dtype)
    before = sums - value[order]
    start = np.repeat(before[first], counts)
    old = np.empty(len(places), memory.dtype)
    old[order] = memory[places[order]] + (before - start)
    last = order[first + counts - 1]
    memory[places[last]] = old[last] + value[last]
    return old
