"""Memory that launches record into: zeroed slices of device arenas, drained without stopping anything.

A launch costs a bump of a pointer. Two arenas alternate: when one is full, a side stream waits for the
launches that used it and copies its used bytes to pinned host memory, while launches record into the other; a
thread moves them on from there, so that pinned memory is allocated once. If the host cannot keep up, nothing
grows: the launching thread waits.

To zero memory means to write it, which displaces as much from the L2 cache, and the next launch would measure
that. So an arena is zeroed in small pieces, each as launches come near it, by a stream of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from profscope.compat.kernels import current_device_now
from profscope.device import cuda_driver
from profscope.device.arena_memory import Arena, ArenaFilling, first, move, pin
from profscope.device.buffers import Full, Lane
from profscope.device.sizing import Blocks
from profscope.instrument_passes.records import BASE_ALIGNMENT, align
from profscope.threads import WorkerPool

__all__ = ["DeviceBuffers", "cold_bytes"]

# A launch that another thread has begun must be enqueued before its arena can be drained. If a hook or a full
# queue holds it up for longer, it is lost, and its arena is given up, to which it may still write.
ENQUEUE_TIMEOUT_S = 10.0
# One thread that copies from pinned memory moves less than PCIe delivers, and half of its time goes to the
# first touch of new pages.
_MOVERS = min(12, max(2, (os.cpu_count() or 2) * 3 // 4))
_BELOW = BASE_ALIGNMENT - 1
# Zeroing displaces a sixteenth of the L2 cache at a time; a launch behind more than a quarter is called cold.
_PIECES_OF_L2 = 16
_COLD_PART_OF_L2 = 4
CLAIM_BYTES = 1 << 18  # at most so much a thread leaves behind that goes over to another device
_PINNED_FROM = 8  # the part of an arena from which on memory is pinned for it, which takes a while


Bytes = npt.NDArray[np.uint8]


def _l2_bytes(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def cold_bytes(device: int) -> int:
    """How much can be written right before a launch that still counts as begun with warm caches."""
    return _l2_bytes(device) // _COLD_PART_OF_L2


def _zero_blocks(address: int, blocks: Blocks, stream: int) -> None:
    """Zero them in as few calls as can be."""
    over_areas, over_segments = (blocks.areas, blocks.area_step), (blocks.segments, blocks.segment_step)
    few, many = sorted((over_areas, over_segments))
    for at in range(few[0]):
        start = address + blocks.offset + at * few[1]
        cuda_driver.zero(start, blocks.size, stream, rows=many[0], step=many[1], at_once=True)


class DeviceBuffers:
    """Arenas of one GPU. budget_bytes: device memory for all of them. Thread-safe.

    Raises torch.OutOfMemoryError when the first arena does not fit; without the second, launches wait for the
    first to be drained.
    """

    def __init__(self, device: int, budget_bytes: int, full: Full) -> None:
        self.limit_bytes = budget_bytes // 2 // BASE_ALIGNMENT * BASE_ALIGNMENT  # of each of two arenas
        self._device = device
        self._current_device = current_device_now()
        self._full = full
        self._side = torch.cuda.Stream(device)
        self._zeroing = torch.cuda.Stream(device)
        self._streams: dict[int, torch.cuda.Stream] = {}  # the program's, by handle
        self.piece_bytes = align(_l2_bytes(device) // _PIECES_OF_L2, BASE_ALIGNMENT)
        self._cold_bytes = cold_bytes(device)
        self.lock = threading.Lock()
        self._idle = threading.Condition(self.lock)  # no launch of some filling is open any more
        self._threads = cuda_driver.driver_threads(2)
        self._movers = WorkerPool(_MOVERS)
        self._arenas = [self._new_arena()]
        self._current = self._arenas[0].filling
        self._may_grow = True
        self.closed = False

    def place(
        self,
        lane: Lane,
        size: int,
        stream: int,
        bits: int,
        zero: Sequence[Blocks] | None = None,
    ) -> int | None:
        # Nearly every launch comes through here: it takes the next bytes of its thread's claim. That needs no
        # lock, for `_drain` takes a claim away before it looks at `filling`, and here it is the other way
        # about; nor can anything of this thread's come in between, for nothing is called. The address is a
        # plain int, since for an object the launcher asks the driver whether its pointer is one of the
        # device's.
        claimant = self._streams.get(stream)
        room = size + _BELOW & ~_BELOW  # align(), inlined
        lane.offset = offset = lane.next  # before `filling`, for who looks at both
        filling = lane.filling = lane.claim
        if offset + room <= lane.end and lane.claimant is claimant:
            lane.next = offset + room
        else:
            lane.enqueued()  # with nothing of the claim, for which someone may wait
            claim = lane.claim
            if claim is not None and claim.idle is not self._idle:  # another device's
                claim.give_back(lane)
            with self.lock:
                filling = self._with_room(lane, size, stream, zero)
                if filling is None:
                    return None
                lane.offset = offset = lane.next
                lane.next = offset + room
                lane.filling = filling
        address: int = filling.address
        return address + offset | bits

    def copy(self, filling: ArenaFilling, offset: int, source: torch.Tensor) -> None:
        stream = torch.cuda.current_stream(self._device).cuda_stream
        cuda_driver.copy(filling.arena.address + offset, source.data_ptr(), source.nbytes, stream)

    def close(self) -> None:
        """Drain the rest and give the device memory back."""
        with self.lock:
            self.closed = True
            for arena in (*self._arenas,):
                arena.filling.zeroed = -1  # so that place() looks
                if arena.filling.used:
                    self._drain(arena.filling, pinned=False)
                    arena.filling.zeroed = -1
        self._threads.shutdown()
        self._movers.shutdown()
        self._side.synchronize()
        self._zeroing.synchronize()
        for arena in self._arenas:  # fillings keep their arenas alive, for their bytes on the host
            arena.memory = torch.empty(0, device="cpu")
            arena.pinned = None

    def _fetch(self, filling: ArenaFilling) -> Bytes:
        """The bytes of a filling; drains it if that has not happened, and waits."""
        host = filling.host
        if host is None:
            with self.lock:
                if filling.host is None:
                    self._drain(filling, pinned=False)
                host = filling.host
        assert host is not None
        return host.result()

    def _stream(self, handle: int) -> torch.cuda.Stream:
        if handle not in self._streams:
            # ExternalStream(0) would not be the default stream but a new one.
            made = (
                torch.cuda.ExternalStream(handle, self._device)
                if handle
                else torch.cuda.default_stream(self._device)
            )
            return self._streams.setdefault(handle, made)  # another thread's, if that was quicker
        return self._streams[handle]

    def _on_device(self, stream: torch.cuda.Stream) -> contextlib.AbstractContextManager[Any]:
        """Makes its device the current one, as the driver wants it; mostly it is, and to ask is cheap."""
        is_current = self._current_device() == self._device
        return contextlib.nullcontext() if is_current else torch.cuda.stream(stream)

    def _new_arena(self) -> Arena:
        arena = cuda_driver.aside(Arena, self.limit_bytes, self._device, self._idle, self._fetch)
        self._zeroing.wait_stream(torch.cuda.default_stream(self._device))  # that thread's current one
        return arena

    def _with_room(
        self, lane: Lane, size: int, stream: int, zero: Sequence[Blocks] | None
    ) -> ArenaFilling | None:
        """The filling that takes a launch, at `lane.next`: the lane claims this, and what has been zeroed
        behind it, too, so that launches to come need not ask. None if the buffers are closed.

        All of a claim is zero, but for the launch at its beginning: who zeroes less zeroes nothing behind it.
        """
        filling, room = self._current, align(size, BASE_ALIGNMENT)
        has_claim = lane.claim is filling
        if has_claim:
            if lane.end == filling.used:  # nobody has claimed what follows
                lane.end = filling.used = lane.next
            elif lane.next + room <= lane.end:  # the claim is for another stream
                self._await_zeroed(filling, stream)
                lane.claimant = self._stream(stream)
                return filling
        if filling.used + room > filling.zeroed or stream not in filling.ready:
            if self.closed:
                return None
            made = self._make_room(size, stream, zero)
            if made is None:
                return None
            filling = made
        lane.next = filling.used
        most = room if filling.awaited else max(room, CLAIM_BYTES)
        filling.used = min(lane.next + most, filling.zeroed)
        filling.lanes.add(lane)
        lane.claim, lane.claimant, lane.end = filling, self._stream(stream), filling.used
        return filling

    def _make_room(self, size: int, stream: int, zero: Sequence[Blocks] | None) -> ArenaFilling | None:
        """The filling that takes a launch of this size: rotated to, zeroed, waited for by the stream. None
        if the buffers were closed meanwhile."""
        while self._current.used + size > self.limit_bytes:
            self._rotate()
            if self.closed:
                return None
        filling = self._current
        arena = filling.arena
        end = align(filling.used + size, BASE_ALIGNMENT)
        if end > filling.zeroed:
            self._zero(filling, end, zero)
        self._await_zeroed(filling, stream)
        if end > self.limit_bytes // _PINNED_FROM and arena.pinned is None:  # it will be drained
            arena.pinned = self._threads.submit(pin, self.limit_bytes)
        return filling

    def _await_zeroed(self, filling: ArenaFilling, stream: int) -> None:
        """Have a stream wait until all that was zeroed is zero."""
        if stream not in filling.ready:
            self._stream(stream).wait_event(filling.arena.ready)
            filling.ready.add(stream)
            filling.streams.add(stream)

    def _zero(self, filling: ArenaFilling, end: int, zero: Sequence[Blocks] | None) -> None:
        """Zero what follows the memory used so far: `zero` of it, or all up to `end` and a piece ahead."""
        arena, begin = filling.arena, filling.zeroed
        if not begin:
            self._zeroing.wait_event(arena.drained)
        if zero is None:
            filling.zeroed = min(self.limit_bytes, max(end, begin + self.piece_bytes))
            parts = [Blocks(begin, 1, 0, 1, 0, filling.zeroed - begin)]
        else:
            filling.zeroed = end
            parts = [each._replace(offset=filling.used + each.offset) for each in zero]
        with self._on_device(self._zeroing):
            for part in parts:
                _zero_blocks(arena.address, part, self._zeroing.cuda_stream)
            arena.ready.record(self._zeroing)
        filling.ready.clear()
        if sum(part.total_bytes for part in parts) > self._cold_bytes:
            filling.cold.add(filling.used)

    def _rotate(self) -> None:
        """Drain the current arena in the background and go on in the other, once that is on the host."""
        full = self._current
        if full.used:
            self._drain(full, pinned=True)
        if self.closed or self._current.arena is not full.arena:
            return  # draining waits, and another thread has closed or rotated meanwhile
        if len(self._arenas) < 2 and self._may_grow:
            try:
                self._arenas.append(self._new_arena())
            except torch.OutOfMemoryError:
                self._may_grow = False  # not tried again: an attempt that fails empties torch's cache
        if len(self._arenas) < 2:
            return  # launches go on behind the draining of the one arena
        self._current = next(arena for arena in self._arenas if arena is not full.arena).filling

    def _drain(self, filling: ArenaFilling, *, pinned: bool) -> None:
        """Copy a filling to the host, on the side stream; a new one begins."""
        arena = filling.arena
        filling.take_claims()  # before the look at `open`
        filling.awaited = True
        self._idle.wait_for(lambda: not filling.open(), ENQUEUE_TIMEOUT_S)
        filling.take_claims()
        if filling.host is not None:
            return  # by another thread, while this one waited
        filling.late = filling.open()
        for stream in filling.streams:
            self._side.wait_event(self._stream(stream).record_event())
        if pinned:
            if arena.pinned is None:
                arena.pinned = self._threads.submit(pin, self.limit_bytes)
            if arena.moved is not None:
                arena.moved.result()  # back-pressure
            pieces = first(arena.pinned.result(), filling.used)
        else:
            pieces = [torch.empty(filling.used, dtype=torch.uint8, device="cpu")]
        arena.drained = drained = torch.cuda.Event()
        with self._on_device(self._side):
            address = arena.address
            for piece in pieces:
                cuda_driver.copy(piece.data_ptr(), address, len(piece), self._side.cuda_stream)
                address += len(piece)
            drained.record(self._side)
        if pinned:
            arena.moved = filling.host = self._threads.submit(
                move,
                [each.numpy() for each in pieces],
                drained.synchronize,
                self._movers,
                _MOVERS,
            )
        else:
            drained.synchronize()
            filling.host = Future()
            filling.host.set_result(pieces[0].numpy())
        if filling.late:
            self._abandon(arena)
        else:
            arena.filling = ArenaFilling(arena, self._idle, self._fetch)
            if self._current is filling:
                self._current = arena.filling
        if pinned:
            self._full(filling.used)

    def _abandon(self, arena: Arena) -> None:
        """Record into other memory from now on. A late launch keeps this until it is in its stream, and the
        stream until the launch has ended. Without memory in its place the buffers are closed."""
        for stream in arena.filling.streams:
            arena.memory.record_stream(self._stream(stream))
        arena.filling.zeroed = -1  # so that place() looks
        self._arenas.remove(arena)
        if self.closed:
            return
        try:
            self._arenas.append(self._new_arena())
        except torch.OutOfMemoryError:
            self._may_grow = False
        if not self._arenas:
            self.closed = True
        elif self._current is arena.filling:
            self._current = self._arenas[-1].filling
