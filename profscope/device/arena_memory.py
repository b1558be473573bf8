"""The memory of an arena: the device's, filled repeatedly, and the host's that it is copied to.

pieces = pin(128 << 20)
host = move([piece.numpy() for piece in first(pieces, used)], copied.synchronize, movers, 4)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from profscope.device.buffers import Filling, Lane
from profscope.instrument_passes.records import BASE_ALIGNMENT, align

__all__ = ["Arena", "ArenaFilling", "DeviceMemory", "first", "move", "pin"]

Bytes = npt.NDArray[np.uint8]
Fetch = Callable[["ArenaFilling"], Bytes]
_PAGE_BYTES: Final = 4096
PINNED_BYTES: Final = 4 << 20  # at a time
_BETWEEN_PIECES_S: Final = 0.004  # for those who wait to launch


class ArenaFilling(Filling):
    """One filling of an arena; `host` receives its bytes once it is drained, which `fetch` sees to.

    The fields that every launch touches are here and not a hop away.
    """

    __slots__ = (
        "_fetch", "address", "arena", "awaited", "cold", "host", "idle", "lanes", "late", "ready", "streams",
        "used", "zeroed",
    )  # fmt: skip

    def __init__(self, arena: Arena, idle: threading.Condition, fetch: Fetch) -> None:
        self._fetch = fetch
        self.arena = arena
        self.address: int = arena.address
        self.used = 0
        self.zeroed = 0  # bytes up to which all that is not used is zero
        self.cold: set[int] = set()  # offsets of launches that began cold
        self.late: set[int] = set()  # offsets of launches that were not in their stream when it was drained
        self.streams: set[int] = set()
        self.ready: set[int] = set()  # those of the streams that have waited for what was zeroed last
        self.host: Future[Bytes] | None = None
        self.lanes: set[Lane] = set()  # that had memory of it
        self.awaited = False  # someone waits on `idle` until no launch is `open`
        self.idle = idle

    @property
    def drained(self) -> bool:  # type: ignore[override]
        return self.host is not None

    def is_cold(self, offset: int) -> bool:
        return offset in self.cold

    def is_late(self, offset: int) -> bool:
        return offset in self.late

    def fetch(self, offset: int, size: int) -> Bytes:
        """Zeros for a late launch, which may have been writing when its memory was copied."""
        fetched = self._fetch(self)[offset : offset + size]
        return np.zeros_like(fetched) if offset in self.late else fetched

    def wake(self) -> None:
        with self.idle:
            self.idle.notify_all()

    def take_claims(self) -> None:
        """No launch gets memory of it by default any more; it is freed once its bytes are read."""
        for lane in self.lanes:
            if lane.claim is self:
                lane.end = -1
                lane.claim = None

    def give_back(self, lane: Lane) -> None:
        """A lane continues elsewhere: its unused memory is free if the memory after it is unclaimed."""
        if not self.idle.acquire(blocking=False):
            return  # a launch on another device is not to wait for this one
        try:
            if lane.claim is self and lane.end == self.used:
                lane.end = self.used = lane.next
        finally:
            self.idle.release()

    def open(self) -> set[int]:
        """Offsets of launches with memory of it that may not be enqueued yet."""
        return {lane.offset for lane in self.lanes if lane.filling is self}


class DeviceMemory:
    """So many bytes of a device. start: where in `memory` they begin, so that `address` is aligned."""

    def __init__(self, size: int, device: int) -> None:
        self.memory = torch.empty(size + BASE_ALIGNMENT, dtype=torch.uint8, device=f"cuda:{device}")
        self.start = -self.memory.data_ptr() % BASE_ALIGNMENT
        self.address: int = self.memory.data_ptr() + self.start


class Arena(DeviceMemory):
    """ready: event after the last zeroing; drained: event after its previous contents were copied; pinned:
    the host memory it is copied to."""

    def __init__(self, size: int, device: int, idle: threading.Condition, fetch: Fetch) -> None:
        super().__init__(size, device)
        self.ready = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.filling = ArenaFilling(self, idle, fetch)
        self.pinned: Future[list[torch.Tensor]] | None = None
        self.moved: Future[Bytes] | None = None  # the last move out of `pinned`


def pin(size: int) -> list[torch.Tensor]:
    """So many bytes of the host, in pieces.

    While the driver locks memory no thread can launch: 128 MiB at once hold launches for 42 to 57 ms (NVIDIA
    H200), and pieces without pauses for as long, since who pins has the lock again first. So a piece takes
    2 ms, and launches have twice as long to themselves.
    """
    pieces = []
    for begin in range(0, size, PINNED_BYTES):
        piece = min(PINNED_BYTES, size - begin)
        try:
            pieces.append(torch.empty(piece, dtype=torch.uint8, device="cpu", pin_memory=True))
        except RuntimeError:  # no memory can be locked: draining then waits for its copies
            pieces.append(torch.empty(piece, dtype=torch.uint8, device="cpu"))
        time.sleep(_BETWEEN_PIECES_S)
    return pieces


def move(pinned: Sequence[Bytes], wait: Callable[[], object], movers: Executor, parts: int) -> Bytes:
    """A copy of pinned memory, piece by piece, in new pages, made while `wait` waits for the data.

    parts: of the copy, one for each thread; each blocks the other threads' interpreter for a moment.
    """
    host = np.empty(sum(map(len, pinned)), np.uint8)
    step = align(-(-len(host) // parts), _PAGE_BYTES)
    ranges = [slice(at, min(at + step, len(host))) for at in range(0, len(host), step)]
    list(movers.map(lambda part: np.copyto(host[part][::_PAGE_BYTES], 0), ranges))
    wait()
    list(movers.map(lambda part: _copy(host, pinned, part), ranges))
    return host


def _copy(host: Bytes, pinned: Sequence[Bytes], part: slice) -> None:
    """Copy what belongs into a part of the host's pages."""
    at = 0
    for piece in pinned:
        begin, end = max(part.start, at), min(part.stop, at + len(piece))
        if begin < end:
            np.copyto(host[begin:end], piece[begin - at : end - at])
        at += len(piece)


def first(pieces: Sequence[torch.Tensor], size: int) -> list[torch.Tensor]:
    """The first so many bytes of them."""
    firsts = []
    for piece in pieces:
        firsts.append(piece[:size])
        size -= len(firsts[-1])
        if not size:
            break
    return firsts
