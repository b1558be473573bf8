"""Arenas and their fillings: who has memory of one, and where its bytes go. `arenas.py` hands it out."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt
import torch

from instrument_passes.records import BASE_ALIGNMENT
from profscope.device.buffers import Lane

__all__ = ["Arena", "Bytes", "Generation"]

Bytes = npt.NDArray[np.uint8]


class Generation:
    """One filling of an arena; `host` receives its bytes once it is drained.

    The fields that every launch touches are here and not a hop away.
    """

    __slots__ = (
        "address", "arena", "awaited", "cold", "host", "idle", "lanes", "ready", "streams", "used", "zeroed",
    )  # fmt: skip

    def __init__(self, arena: Arena, idle: threading.Condition) -> None:
        self.arena = arena
        self.address: int = arena.address
        self.used = 0
        self.zeroed = 0  # bytes up to which all that is not used is zero
        self.cold: set[int] = set()  # offsets of launches that began cold
        self.streams: set[int] = set()
        self.ready: set[int] = set()  # those of the streams that have waited for what was zeroed last
        self.host: Future[Bytes] | None = None
        self.lanes: set[Lane] = set()  # that had memory of it
        self.awaited = False  # someone waits on `idle` until no launch is `open`
        self.idle = idle

    def wake(self) -> None:
        with self.idle:
            self.idle.notify_all()

    def take_claims(self) -> None:
        """Nobody takes memory of it unasked any more, and it can go once nobody wants its bytes."""
        for lane in self.lanes:
            if lane.claim is self:
                lane.end = -1
                lane.claim = None

    def give_back(self, lane: Lane) -> None:
        """A lane goes on elsewhere: what it has not used is free where nobody has claimed what follows."""
        if not self.idle.acquire(blocking=False):
            return  # a launch on another device is not to wait for this one
        try:
            if lane.claim is self and lane.end == self.used:
                lane.end = self.used = lane.next
        finally:
            self.idle.release()

    def open(self) -> bool:
        """Whether a launch with memory of it may not be enqueued yet."""
        return any(lane.filling is self for lane in self.lanes)


class Arena:
    """Device memory. ready: what was zeroed last is zero; drained: what was in it before has been copied."""

    def __init__(self, size: int, device: int, idle: threading.Condition) -> None:
        self.memory = torch.empty(size + BASE_ALIGNMENT, dtype=torch.uint8, device=f"cuda:{device}")
        self.start = -self.memory.data_ptr() % BASE_ALIGNMENT
        self.address: int = self.memory.data_ptr() + self.start
        self.ready = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.generation = Generation(self, idle)
        self.pinned: Future[list[torch.Tensor]] | None = None
        self.moved: Future[Bytes] | None = None  # the last move out of `pinned`
