"""The places of a launch's warps, from the slots they write to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.progress import PLACE_SHIFT, WARPS_OF_SM, ProgressMark

__all__ = ["Standing", "Stands", "standing", "stands_of", "state_of"]

Slots = npt.NDArray[Any]


class Stands(NamedTuple):
    """Facts of a program's marks, by number. state: the mark that it counts as, since a loop that only polls
    is one place; ends: whether no warp hangs there; polls: whether it is in such a loop; walks: whether
    another address is progress there."""

    marks: tuple[ProgressMark, ...]
    state: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.bool_]
    polls: npt.NDArray[np.bool_]
    walks: npt.NDArray[np.bool_]


def stands_of(manifest: Manifest) -> Stands:
    """The marks of a program."""
    state: list[int] = []
    kinds: list[str] = []  # of the outermost loop around a mark that polls
    for at, mark in enumerate(manifest.marks):
        around = "" if mark.loop < 0 else kinds[mark.loop] or manifest.marks[mark.loop].kind
        polls = around in ("poll", "walk")
        kinds.append(around if polls else "")
        state.append(state[mark.loop] if polls else at)
    ends = [mark.kind == "end" for mark in manifest.marks]
    polled, walks = [kind != "" for kind in kinds], [kind == "walk" for kind in kinds]
    return Stands(
        manifest.marks, np.array(state, np.uint32), np.array(ends), np.array(polled), np.array(walks)
    )


def state_of(slots: Slots, stands: Stands) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]]:
    """Which of a launch's slots are of warps that have not ended, and what must change for progress: (slots,
    3), mark, iteration and CTA."""
    places = np.minimum(slots["place"] >> PLACE_SHIFT, len(stands.marks) - 1)
    moved = np.where(stands.walks[places], slots["detail"][:, 0], 0)
    iterations = np.where(stands.polls[places], moved, slots["iteration"])
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
    slots: Slots, indices: Sequence[int], since_s: npt.NDArray[np.float64], stands: Stands
) -> list[Standing]:
    """The warps of a launch, by CTA and warp. slots: of the GPU; indices: those of the launch; since_s: of
    each of these."""
    found = []
    for index, since in zip(indices, since_s.tolist(), strict=True):
        slot = slots[index]
        place, warp = divmod(int(slot["place"]), 1 << PLACE_SHIFT)
        mark = _polled(stands, place)
        is_inner = mark.loop >= 0 and stands.marks[mark.loop].loop >= 0
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


def _polled(stands: Stands, place: int) -> ProgressMark:
    """The mark; in a loop that polls, that of what it has read last."""
    marks = stands.marks
    if not stands.polls[place]:
        return marks[place]
    same = np.flatnonzero(stands.state == stands.state[place])
    reads = [at for at in same.tolist() if marks[at].waits_for == "memory"]
    before = [at for at in reads if at <= place]
    return marks[(before or reads or [place])[-1]]
