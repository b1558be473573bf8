"""Where the warps of a launch stand, from the slots they write to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.progress import PLACE_SHIFT, WARPS_OF_SM, ProgressMark

__all__ = ["Standing", "Stands", "standing", "state_of"]

Slots = npt.NDArray[Any]


class Stands(NamedTuple):
    """What is known of each mark of a program, by its number. state: the mark in whose place it counts, as a
    loop that only polls is one place; ends: whether no warp hangs there; polls: whether it is in such a
    loop."""

    state: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.bool_]
    polls: npt.NDArray[np.bool_]


@lru_cache(64)
def stands_of(manifest: Manifest) -> Stands:
    """Of a program."""
    marks = manifest.marks
    polls = [mark.loop >= 0 and marks[mark.loop].kind == "poll" for mark in marks]
    state = [mark.loop if polled else at for at, (mark, polled) in enumerate(zip(marks, polls, strict=True))]
    ends = [mark.kind == "end" for mark in marks]
    return Stands(np.array(state, np.uint32), np.array(ends), np.array(polls))


def state_of(slots: Slots, manifest: Manifest) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]]:
    """Which of a launch's slots are of warps that have not ended, and what must change for progress: (slots,
    3), mark, iteration and CTA."""
    stands = stands_of(manifest)
    places = np.minimum(slots["place"] >> PLACE_SHIFT, len(manifest.marks) - 1)
    iterations = np.where(stands.polls[places], 0, slots["iteration"])
    return ~stands.ends[places], np.stack([stands.state[places], iterations, slots["cta"]], axis=1)


@dataclass(frozen=True)
class Standing:
    """One warp.

    slot: its index. iteration: of the innermost loop; outer, iterations: of the outermost loop, and how many
    that is going to have, 0 if not known; is_inner: whether these are two loops. detail: see `ProgressMark`.
    since_s: for how long, seconds, NaN if not known.
    """

    slot: int
    cta: int
    warp: int
    mark: ProgressMark
    iteration: int
    detail: tuple[int, int]
    outer: int
    iterations: int
    is_inner: bool
    since_s: float

    @property
    def sm(self) -> int:
        return self.slot // WARPS_OF_SM


def standing(
    slots: Slots, indices: Sequence[int], since_s: npt.NDArray[np.float64], manifest: Manifest
) -> list[Standing]:
    """The warps of a launch, by CTA and warp. slots: of the GPU; indices: those of the launch; since_s: of
    each of these."""
    found = []
    for index, since in zip(indices, since_s.tolist(), strict=True):
        slot = slots[index]
        place, warp = divmod(int(slot["place"]), 1 << PLACE_SHIFT)
        mark = _polled(manifest.marks, place)
        is_inner = mark.loop >= 0 and manifest.marks[mark.loop].loop >= 0
        iteration = int(slot["iteration"]) if mark.loop >= 0 else 0
        found.append(
            Standing(
                index,
                int(slot["cta"]),
                warp,
                mark,
                iteration,
                (int(slot["detail"][0]), int(slot["detail"][1])),
                int(slot["outer"]) if is_inner else iteration,
                int(slot["iterations"]) if mark.loop >= 0 else 0,
                is_inner,
                since,
            )
        )
    return sorted(found, key=lambda each: (each.cta, each.warp))


def _polled(marks: Sequence[ProgressMark], place: int) -> ProgressMark:
    """The mark; in a loop that polls, that of what it reads."""
    mark = marks[place]
    if mark.loop < 0 or marks[mark.loop].kind != "poll":
        return mark
    return next((each for each in marks if each.loop == mark.loop and each.detail == "address"), mark)
