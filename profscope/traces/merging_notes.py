"""The notes of several parts, each said once, with the ranks that it is of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

__all__ = ["merged_notes"]

_NUMBER: Final = re.compile(r"(?<![\w.#:])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:])")
"""What counts something: not a part of a name, the number of a variant, nor the line of a place."""


def merged_notes(notes: Mapping[int, Sequence[str]]) -> list[str]:
    """notes: by rank. Those that differ in their counts alone are one, with the least and the greatest.

    {0: ["k: 7 launches ran bare"], 1: ["k: 9 launches ran bare", "odd"]}
    -> ["each of 2 ranks: k: 7 to 9 launches ran bare", "rank 1: odd"]
    """
    alike: dict[str, dict[int, list[str]]] = {}
    for rank, of_rank in notes.items():
        for note in of_rank:
            alike.setdefault(_NUMBER.sub("0", note), {}).setdefault(rank, []).append(note)
    merged: list[str] = []
    for of_ranks in alike.values():
        told = list(dict.fromkeys(chain.from_iterable(of_ranks.values())))
        if len(told) > 1 and max(map(len, of_ranks.values())) == 1:
            merged.append(f"{_whose(list(of_ranks), len(notes))}{_together(told)}")
            continue
        for note in told:
            ranks = [rank for rank, own in of_ranks.items() if note in own]
            merged.append(f"{_whose(ranks, len(notes))}{note}")
    return merged


def _whose(ranks: list[int], count: int) -> str:
    if len(ranks) == count:
        return f"each of {count} ranks: " if count > 1 else ""
    return f"rank {', '.join(map(str, ranks))}: "


def _together(alike: Sequence[str]) -> str:
    """Notes that differ in their counts, as one."""
    counts = [_NUMBER.findall(note) for note in alike]
    ranges = iter([_range(list(dict.fromkeys(of_place))) for of_place in zip(*counts, strict=True)])
    return _NUMBER.sub(lambda _: next(ranges), alike[0])


def _range(counts: list[str]) -> str:
    ordered = sorted(counts, key=lambda count: float(count.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
