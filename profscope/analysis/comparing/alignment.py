"""Which line of one text is which of another, after somebody has edited it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

__all__ = ["aligned"]

_ALIKE: Final = 0.6  # lines in one another's place that are at least so alike are one line, edited
_LARGEST: Final = 1 << 14  # pairs of lines that are looked at in one place: each takes some 10 us


def aligned(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each line of `before` its index in `after`, None where it has gone. Indentation does not count.

    First the lines in between which nothing changed order, so that equal lines are told apart by it; then
    lines that stand elsewhere, where only one reads so; then lines in one another's place that read alike.
    """
    old, new = [line.strip() for line in before], [line.strip() for line in after]
    result: list[int | None] = [None] * len(old)
    replaced = []
    for tag, begin, end, new_begin, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            result[begin:end] = range(new_begin, new_end)
        elif tag == "replace":
            replaced.append((range(begin, end), range(new_begin, new_end)))
    _moved(old, new, result)
    taken = set(result)
    for lines, others in replaced:
        left = [at for at in lines if result[at] is None and old[at]]
        free = [at for at in others if at not in taken and new[at]]
        for at, other in _edited(left, free, old, new):
            result[at] = other
    return result


def _moved(old: Sequence[str], new: Sequence[str], result: list[int | None]) -> None:
    """Add lines that are left, once on either side."""
    taken = set(result)
    lines = [at for at in range(len(old)) if result[at] is None and any(map(str.isalnum, old[at]))]
    others = [at for at in range(len(new)) if at not in taken]
    times, other_times = Counter(old[at] for at in lines), Counter(new[at] for at in others)
    place = {new[at]: at for at in others}
    for at in lines:
        if times[old[at]] == 1 and other_times[old[at]] == 1:
            result[at] = place[old[at]]


def _edited(
    lines: Sequence[int], others: Sequence[int], old: Sequence[str], new: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs, in the order of both, that are most alike in sum."""
    if len(lines) * len(others) > _LARGEST:
        return []
    best: list[list[tuple[float, list[tuple[int, int]]]]] = [[(0.0, [])] * (len(others) + 1)]
    for at in lines:
        row: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]
        for column, other in enumerate(others, 1):
            choices = [best[-1][column], row[-1]]
            ratio = SequenceMatcher(None, old[at], new[other], autojunk=False).ratio()
            if ratio >= _ALIKE:
                score, pairs = best[-1][column - 1]
                choices.append((score + ratio, [*pairs, (at, other)]))
            row.append(max(choices, key=lambda choice: choice[0]))
        best.append(row)
    return best[-1][-1][1]
