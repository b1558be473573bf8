"""Which interval lies in which, for millions of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["enclosing"]

Ints = npt.NDArray[np.int64]


def enclosing(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each interval the innermost other one of its thread that it lies in, -1 for none; shape (n,).

    Of equal ones the first lies around the others. Those that only overlap lie in neither.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    order = np.lexsort((-end, start, thread))
    thread, start, end = (np.asarray(each, np.int64)[order] for each in (thread, start, end))
    above = _of_nested(thread, start, end)
    known = np.maximum(above, 0)
    wrong = (above >= 0) & ((end > end[known]) | (thread != thread[known]))
    if wrong.any():  # some only overlap: one by one, on their threads
        for each in np.unique(thread[wrong]).tolist():
            low, high = np.searchsorted(thread, [each, each + 1]).tolist()
            above[low:high] = _one_by_one(start[low:high], end[low:high], low)
    result = np.empty(len(order), np.int64)
    result[order] = np.where(above < 0, -1, order[np.maximum(above, 0)])
    return result


def _of_nested(thread: Ints, start: Ints, end: Ints) -> Ints:
    """The same of intervals in order of thread, start and length, as places in this order, if all nest."""
    number = np.arange(len(start))
    first = np.flatnonzero(np.diff(thread, prepend=thread[0] - 1))
    depth = np.empty(len(start), np.int64)
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(start)], strict=True):
        # What has begun, less what has ended; what has no length ends a little later.
        ends = np.sort(np.maximum(end[low:high], start[low:high] + 1))
        begun = np.arange(high - low)
        depth[low:high] = np.maximum(begun - np.searchsorted(ends, start[low:high], "right"), 0)
    above = np.full(len(start), -1, np.int64)
    for level in range(int(depth.max()), 0, -1):
        number = number[depth[number] <= level]
        outer = np.maximum.accumulate(np.where(depth[number] == level - 1, number, -1))
        here = depth[number] == level
        above[number[here]] = outer[here]
    return above


def _one_by_one(start: Ints, end: Ints, first: int) -> Ints:
    above = np.full(len(start), -1, np.int64)
    around: list[int] = []
    starts, ends = start.tolist(), end.tolist()
    for at, (begin, finish) in enumerate(zip(starts, ends, strict=True)):
        while around and ends[around[-1]] <= begin and ends[around[-1]] < finish:
            around.pop()
        inside = next((outer for outer in reversed(around) if ends[outer] >= finish), -1)
        above[at] = -1 if inside < 0 else first + inside
        around.append(at)
    return above
