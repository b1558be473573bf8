"""The format of progress marks: where each resident warp is, in memory that is read while kernels run.

A session with `hang_s=` has two arrays for each GPU::

    launches  one COUNTERS for each launch under way
    slots     one SLOT for each place a warp can have on the GPU

A mark is one store by one lane of a warp, over the one before it: the place, the iteration of the loop around
it, the CTA and the launch. So memory grows with the GPU and not with the grid. A slot belongs to the warp
that has last written to it. If a place waits for something with a number (an mbarrier of an array and its
phase, or an address), that is stored before the mark. How far the outermost loop is has words of its own.

The launcher hands a kernel the address of its COUNTERS; their `slots` has the address of the slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = [
    "COUNTERS",
    "LAUNCH_SHIFT",
    "MAX_LAUNCHES",
    "MAX_PLACES",
    "PLACE_SHIFT",
    "SLOT",
    "SLOTS",
    "WARPS_OF_SM",
    "Arrival",
    "ProgressMark",
]

WARPS_OF_SM: Final = 64  # %warpid is below it on GPUs of compute capability 8.0 to 10.0
SLOTS: Final = 512 * WARPS_OF_SM  # of a GPU: no GPU has as many SMs
PLACE_SHIFT: Final = 8  # of a mark's first word: the place is above the warp's number in its CTA
MAX_PLACES: Final = 1 << 16
LAUNCH_SHIFT: Final = 48  # of COUNTERS.slots: the launch's number is above the slots' address
MAX_LAUNCHES: Final = 1 << 12  # that a GPU has under way, with a number each

# The first 16 bytes are one store.
SLOT: Final = np.dtype(
    [
        ("place", "<u4"),  # index of the ProgressMark << PLACE_SHIFT | the warp in its CTA
        (
            "iteration",
            "<u4",
        ),  # of the innermost loop around the place, from 0; of the kernel's begin its digest
        ("cta", "<u4"),  # linear CTA id in the launch, x fastest
        ("launch", "<u4"),  # the launch's number, from 1; 0: no warp has been here
        ("detail", "<u4", 2),  # ProgressMark.detail says what
        ("iterations", "<u4"),  # that the outermost loop around the place is going to have, 0 if not known
        ("outer", "<u4"),  # its iteration, if it has loops inside
    ]
)
COUNTERS: Final = np.dtype(
    [
        ("slots", "<u8"),  # address of the slots, and above LAUNCH_SHIFT the launch's number
        ("begun", "<u4"),  # CTAs that have begun, of all launches with this number, modulo 2^32
        ("ended", "<u4"),  # CTAs of which the first warp has ended
        ("reserved", "V16"),
    ]
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An op that arrives at an mbarrier, or starts what does. section: index of the warp program it is in."""

    section: int
    op: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ProgressMark:
    """A place in a kernel at which each warp says that it is there.

    kind: "begin" (of a warp program), "at" (before an op that can wait), "past" (behind it), "loop" (before a
    loop), "poll" and "walk" (before one that only waits for what it reads, see `waiting.polls_of`),
    "iteration" (at its start), "end".
    section: index of the warp program. op, label: the op's name, and what it is called.
    loop: number of the mark before the innermost loop around it, -1 without one.
    waits_for: of an "at", in words. arrivals: at that mbarrier.
    detail: what the slot's is: "barrier" (index in the array of mbarriers, and phase), "phase" (twice),
    "address" (64 bits) or "".
    """

    kind: str
    section: int
    op: str = ""
    label: str = ""
    file: str = ""
    line: int = 0
    loop: int = -1
    waits_for: str = ""
    detail: str = ""
    arrivals: tuple[Arrival, ...] = ()
