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
    """What is known of each mark of a program, by its number. state: the mark in whose place it counts: a loop
    that only polls counts as one place; ends: whether no warp hangs there; polls: whether it is in such a
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
    """One warp. since_s: for how long, seconds, NaN if not known; iterations: how many its loop is going to
    have, 0 if not known; detail: see `ProgressMark`."""

    cta: int
    sm: int
    warp: int
    mark: ProgressMark
    iteration: int
    detail: tuple[int, int]
    iterations: int
    since_s: float


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
        own_loop = mark.loop >= 0 and int(slot["loop"]) == mark.loop
        found.append(
            Standing(
                int(slot["cta"]),
                index // WARPS_OF_SM,
                warp,
                mark,
                int(slot["iteration"]) if mark.loop >= 0 else 0,
                (int(slot["detail"][0]), int(slot["detail"][1])),
                int(slot["iterations"]) if own_loop else 0,
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
