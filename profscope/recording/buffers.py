"""Memory that launches record into: zeroed slices of device arenas, drained without stopping anything.

A launch costs a bump of a pointer. Two arenas alternate: when one is full, a side stream waits for the
launches that used it, copies its used bytes to pinned host memory in one copy, and zeroes them, while
launches record into the other; a thread moves them on from there, so that pinned memory is allocated once.
The launching thread waits only when the host cannot keep up: back-pressure instead of growth on the device.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from instrument_passes.records import BASE_ALIGNMENT, align

__all__ = ["MOVERS", "Buffers", "DeviceBuffers", "Filling", "HostBuffers", "Lane", "Slice", "move", "pages"]

Bytes = npt.NDArray[np.uint8]
# A launch that another thread has begun must be enqueued before its arena can be drained. A launch that
# failed in a thread that never launches again would hold it up for ever; after this long it is given up.
_ENQUEUE_TIMEOUT_S = 10.0
# Threads that copy from pinned memory: one alone moves less than PCIe delivers, and half of its time goes to
# the first touch of new pages.
MOVERS = min(12, max(2, (os.cpu_count() or 2) * 3 // 4))
_PIECE_BYTES = 4 << 20  # what a thread takes at a time
_PAGE_BYTES = 4096
_HUGE_PAGE_BYTES = 2 << 20


def pages(size: int) -> Bytes:
    """New memory in huge pages, where the system has them; a page exists once it is touched."""
    whole = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        whole.madvise(mmap.MADV_HUGEPAGE)
    memory: Bytes = np.frombuffer(whole, np.uint8)
    start = -memory.ctypes.data % _HUGE_PAGE_BYTES
    return memory[start : start + size]


def _allow_capture() -> None:
    """Let this thread allocate and wait while another one captures a CUDA graph, else that breaks."""
    relaxed = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
    with contextlib.suppress(OSError):  # no driver, then no graphs either
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))


def move(pinned: Bytes, wait: Callable[[], None], movers: ThreadPoolExecutor) -> Bytes:
    """A copy of pinned memory in new pages, which are made while `wait` waits for what is to be copied."""
    host = pages(len(pinned))
    parts = [slice(at, at + _PIECE_BYTES) for at in range(0, len(host), _PIECE_BYTES)]
    list(movers.map(lambda part: np.copyto(host[part][::_PAGE_BYTES], 0), parts))
    wait()
    list(movers.map(lambda part: np.copyto(host[part], pinned[part]), parts))
    return host


class Slice(Protocol):
    """A launch's buffer."""

    @property
    def extent(self) -> tuple[int, int]:
        """Start address and bytes."""

    @property
    def drained(self) -> bool:
        """Whether fetch() would wait for nothing but a copy that is under way."""

    def fetch(self) -> Bytes:
        """Its bytes on the host; waits for the launch. Raises RuntimeError if the device has faulted."""


class Lane:
    """One launching thread: the launch that it has been given memory for and that may not be in its stream
    yet. Only its thread writes it, so that nothing in the launch path needs a lock for it."""

    __slots__ = ("about", "captured", "filling", "mark", "offset")

    def __init__(self) -> None:
        self.filling: Filling | None = None
        self.offset = 0
        self.about: Any = None  # what the caller wants to know when the launch begins
        self.mark: Any = None  # and what it wants to remember of all launches for a while
        self.captured: Any = None  # the graph, in place of a filling, that a launch is captured into

    def enqueued(self) -> None:
        """The launch is in its stream, or has failed."""
        filling = self.filling
        if filling is not None:
            self.filling = None
            filling.open.discard(self)  # atomic, and before the look at `awaited`
            if filling.awaited:
                filling.wake()


class Filling(Protocol):
    """What a launch's memory is part of; `open` holds the lanes whose launch is not enqueued yet."""

    open: set[Lane]
    awaited: bool

    def wake(self) -> None:
        """A launch has been enqueued and someone waits for it."""


class Buffers(Protocol):
    """Where slices come from."""

    limit_bytes: int

    def place(self, lane: Lane, size: int, stream: int, bits: int) -> Any:
        """Zeroed memory for a launch on this stream, in `lane.filling` at `lane.offset`.

        Returns what Triton's launcher takes for a pointer: the address, a multiple of BASE_ALIGNMENT, with
        the launch bits in the low bits, or an object that holds it; None, and no filling, once the buffers
        are closed. size must not exceed limit_bytes.
        """

    def slice(self, filling: Any, offset: int, size: int) -> Slice:
        """What `place` placed."""

    def copy(self, filling: Any, offset: int, source: torch.Tensor) -> None:
        """Copy device memory to where `place` placed, in the current stream."""

    def close(self) -> None:
        """No more slices; what was placed can still be fetched."""


# Called when an arena has been filled and is on its way to the host, with its bytes; it may wait, but not for
# what takes the buffers' lock.
Full = Callable[[int], None]


class _HostSlice:
    """A slice that is its own filling and its own pointer: it names its memory itself, as `extent`."""

    awaited = False

    def __init__(self, size: int, bits: int) -> None:
        self.open: set[Lane] = set()
        memory = np.zeros(size + BASE_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % BASE_ALIGNMENT
        self._bytes = memory[start : start + size]
        self._bits = bits

    def data_ptr(self) -> int:
        return int(self._bytes.ctypes.data) | self._bits

    @property
    def extent(self) -> tuple[int, int]:
        return self._bytes.ctypes.data, self._bytes.nbytes

    @property
    def drained(self) -> bool:
        return not self.open

    def wake(self) -> None:
        """Nobody waits: the launcher returns when the launch is over."""

    def fetch(self) -> Bytes:
        return self._bytes


class HostBuffers:
    """Slices of host memory, for the emulator, which has run a launch when the launcher returns."""

    def __init__(self, budget_bytes: int, full: Full) -> None:
        self.limit_bytes = budget_bytes
        self._full = full
        self._used = 0
        self._closed = False

    def place(self, lane: Lane, size: int, stream: int, bits: int) -> _HostSlice | None:
        if self._closed:
            return None
        self._used += size
        if self._used > self.limit_bytes // 2:
            self._full(self._used)
            self._used = size
        slice_ = _HostSlice(size, bits)
        slice_.open.add(lane)
        lane.filling = slice_
        lane.offset = 0
        return slice_

    def slice(self, filling: _HostSlice, offset: int, size: int) -> Slice:
        return filling

    def copy(self, filling: _HostSlice, offset: int, source: torch.Tensor) -> None:
        raise NotImplementedError("the emulator has no graphs")

    def close(self) -> None:
        self._closed = True


class _Generation:
    """One filling of an arena; `host` receives its bytes once it is drained.

    The fields that every launch touches are here and not a hop away.
    """

    __slots__ = ("address", "arena", "awaited", "host", "idle", "open", "room", "streams", "used")

    def __init__(self, arena: _Arena, room: int, idle: threading.Condition) -> None:
        self.arena = arena
        self.address: int = arena.address
        self.used = 0
        self.room = room  # bytes up to which place() has nothing to arrange
        self.streams: set[int] = set()
        self.host: Future[Bytes] | None = None
        self.open: set[Lane] = set()
        self.awaited = False  # someone waits on `idle` for `open` to be empty
        self.idle = idle

    def wake(self) -> None:
        with self.idle:
            self.idle.notify_all()


class _Arena:
    """Device memory that is zero from the generation's `used` on, once `ready` has passed."""

    def __init__(self, size: int, device: int, idle: threading.Condition) -> None:
        self.memory = torch.empty(size + BASE_ALIGNMENT, dtype=torch.uint8, device=f"cuda:{device}")
        self.start = -self.memory.data_ptr() % BASE_ALIGNMENT
        self.address: int = self.memory.data_ptr() + self.start
        self.ready = torch.cuda.Event()
        self.generation = _Generation(self, size // 2, idle)
        self.pinned: Future[torch.Tensor] | None = None
        self.moved: Future[Bytes] | None = None  # the last move out of `pinned`


class _DeviceSlice:
    def __init__(self, buffers: DeviceBuffers, generation: _Generation, offset: int, size: int) -> None:
        self._buffers = buffers
        self._generation = generation
        self._offset = offset
        self._size = size

    @property
    def extent(self) -> tuple[int, int]:
        return self._generation.address + self._offset, self._size

    @property
    def drained(self) -> bool:
        return self._generation.host is not None

    def fetch(self) -> Bytes:
        return self._buffers.fetch(self._generation)[self._offset : self._offset + self._size]


class DeviceBuffers:
    """Arenas of one GPU. budget_bytes: device memory for all of them. Thread-safe.

    Raises torch.OutOfMemoryError when the first arena does not fit; without the second, launches wait for the
    first to be drained.
    """

    def __init__(self, device: int, budget_bytes: int, full: Full) -> None:
        self.limit_bytes = budget_bytes // 2 // BASE_ALIGNMENT * BASE_ALIGNMENT
        self._device = device
        self._full = full
        self._side = torch.cuda.Stream(device)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)  # no launch of some generation is open any more
        self._threads = ThreadPoolExecutor(2, "profscope-drain", _allow_capture)
        self._movers = ThreadPoolExecutor(MOVERS, "profscope-move")
        self._arenas = [self._new_arena()]
        self._current = self._arenas[0].generation
        self._may_grow = True
        self._closed = False

    def place(self, lane: Lane, size: int, stream: int, bits: int) -> int | None:
        # Every launch comes through here. The address is a plain int, since for an object the launcher asks
        # the driver whether its pointer is one of the device's.
        with self._lock:
            generation = self._current
            offset = generation.used
            end = -(-(offset + size) // BASE_ALIGNMENT) * BASE_ALIGNMENT
            if end > generation.room or stream not in generation.streams:
                if self._closed:
                    return None
                generation = self._make_room(size, stream)
                offset = generation.used
                end = align(offset + size, BASE_ALIGNMENT)
            generation.used = end
            generation.open.add(lane)
        lane.filling = generation
        lane.offset = offset
        return generation.address + offset | bits

    def slice(self, filling: _Generation, offset: int, size: int) -> Slice:
        return _DeviceSlice(self, filling, offset, size)

    def copy(self, filling: _Generation, offset: int, source: torch.Tensor) -> None:
        start = filling.arena.start + offset
        filling.arena.memory[start : start + source.nbytes].copy_(source, non_blocking=True)

    def fetch(self, generation: _Generation) -> Bytes:
        """The bytes of a generation; drains it if that has not happened, and waits."""
        host = generation.host
        if host is None:
            with self._lock:
                if generation.host is None:
                    self._drain(generation, pinned=False)
                host = generation.host
        assert host is not None
        return host.result()

    def close(self) -> None:
        """Drain what is left and give the device memory back."""
        with self._lock:
            self._closed = True
            for arena in self._arenas:
                arena.generation.room = -1  # so that place() looks
                if arena.generation.used:
                    self._drain(arena.generation, pinned=False)
                    arena.generation.room = -1
        self._threads.shutdown()
        self._movers.shutdown()
        self._side.synchronize()
        for arena in self._arenas:  # slices keep their arenas alive, for their bytes on the host
            arena.memory = torch.empty(0)
            arena.pinned = None

    def _stream(self, handle: int) -> torch.cuda.Stream:
        # ExternalStream(0) would not be the default stream but a new one.
        return (
            torch.cuda.ExternalStream(handle, self._device)
            if handle
            else torch.cuda.default_stream(self._device)
        )

    def _new_arena(self) -> _Arena:
        # In another thread: this one may be allocating from the pool of a CUDA graph, as torch.compile does.
        with ThreadPoolExecutor(1, "profscope-arena") as aside:
            arena = aside.submit(_Arena, self.limit_bytes, self._device, self._idle).result()
        self._side.wait_stream(torch.cuda.default_stream(self._device))  # that thread's current one
        with torch.cuda.stream(self._side):
            arena.memory.zero_()
            arena.ready.record(self._side)
        return arena

    def _pin(self) -> torch.Tensor:
        try:
            return torch.empty(self.limit_bytes, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:  # no memory can be locked: draining then waits for its copies
            return torch.empty(self.limit_bytes, dtype=torch.uint8)

    def _make_room(self, size: int, stream: int) -> _Generation:
        """The generation that takes a launch of this size: rotated to, waited for by the stream."""
        while self._current.used + size > self.limit_bytes:
            self._rotate()
        generation = self._current
        arena = generation.arena
        if stream not in generation.streams:
            self._stream(stream).wait_event(arena.ready)
            generation.streams.add(stream)
        if generation.used + size > generation.room:  # half full: it will be drained
            if arena.pinned is None:
                arena.pinned = self._threads.submit(self._pin)
            generation.room = self.limit_bytes
        return generation

    def _rotate(self) -> None:
        """Drain the current arena in the background and go on in the other, once that is on the host."""
        full = self._current
        if full.used:
            self._drain(full, pinned=True)
        if self._current.arena is not full.arena:
            return  # draining waits, and another thread has rotated meanwhile
        if len(self._arenas) < 2 and self._may_grow:
            try:
                self._arenas.append(self._new_arena())
            except torch.OutOfMemoryError:
                self._may_grow = False  # not tried again: an attempt that fails empties torch's cache
        if len(self._arenas) < 2:
            return  # launches go on behind the draining of the one arena
        self._current = next(arena for arena in self._arenas if arena is not full.arena).generation

    def _drain(self, generation: _Generation, *, pinned: bool) -> None:
        """Copy a generation to the host and zero its memory, on the side stream; a new one begins."""
        arena = generation.arena
        generation.awaited = True  # before the look at `open`
        self._idle.wait_for(lambda: not generation.open, _ENQUEUE_TIMEOUT_S)
        if generation.host is not None:
            return  # by another thread, while this one waited
        for stream in generation.streams:
            self._side.wait_event(self._stream(stream).record_event())
        used = arena.memory[arena.start : arena.start + generation.used]
        if pinned:
            if arena.pinned is None:
                arena.pinned = self._threads.submit(self._pin)
            if arena.moved is not None:
                arena.moved.result()  # back-pressure
            host = arena.pinned.result()[: generation.used]
        else:
            host = torch.empty(generation.used, dtype=torch.uint8)
        drained = torch.cuda.Event()
        with torch.cuda.stream(self._side):
            host.copy_(used, non_blocking=pinned)
            drained.record(self._side)
            used.zero_()
            arena.ready.record(self._side)
        if pinned:
            arena.moved = generation.host = self._threads.submit(
                move, host.numpy(), drained.synchronize, self._movers
            )
        else:
            generation.host = Future()
            generation.host.set_result(host.numpy())
        arena.generation = _Generation(arena, self.limit_bytes // 2, self._idle)
        if self._current is generation:
            self._current = arena.generation
        if pinned:
            self._full(generation.used)
