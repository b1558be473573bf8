"""Read-modify-write by many threads at once, as if they took turns in the order of their numbers."""

from collections.abc import Callable, Sequence

import numpy as np

from profscope.emulator.arrays import Array

__all__ = ["combine_in_turn"]

UNORDERED: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def combine_in_turn(
    memory: Array,
    places: Array,
    name: str,
    combine: Callable[..., Array],
    values: Sequence[Array],
    wants_old: bool,
) -> Array:
    """memory[p] = combine(memory[p], value), for each p of `places` in order; returns what each found there.

    `places` and `values` are one-dimensional. Without `wants_old` the result is meaningless.
    """
    if not wants_old and name in UNORDERED:
        # Not on `memory` itself: it spans the address space, and numpy copies what may overlap its arguments.
        distinct, turn_of = np.unique(places, return_inverse=True)
        result = memory[distinct]
        UNORDERED[name].at(result, turn_of, values[0])
        memory[distinct] = result
        return values[0]
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    first = np.flatnonzero(np.r_[True, sorted_places[1:] != sorted_places[:-1]])
    counts = np.diff(np.r_[first, len(places)])
    if name == "add" and memory.dtype.kind in "iu":
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
