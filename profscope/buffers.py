"""Memory that launches record into: zeroed slices of device arenas, drained without stopping anything.

A launch costs a bump of a pointer. Two arenas alternate: when one is full, a side stream waits for the
launches that used it, copies its used bytes to pinned host memory in one copy, and zeroes them, while
launches record into the other; a thread moves them on from there, so that pinned memory is allocated once.
The launching thread waits only when the host cannot keep up: back-pressure instead of growth on the device.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from instrument_passes.records import BASE_ALIGNMENT, align

__all__ = ["Buffers", "DeviceBuffers", "HostBuffers", "Slice"]

Bytes = npt.NDArray[np.uint8]
# A launch that another thread has begun must be enqueued before its arena can be drained. A launch that
# failed in a thread that never launches again would hold it up for ever; after this long it is given up.
_ENQUEUE_TIMEOUT_S = 10.0
_MOVERS = 4  # threads that copy from pinned memory; one alone moves less than PCIe delivers


class Slice(Protocol):
    """A launch's buffer, as Triton's launcher takes it from an allocator."""

    def data_ptr(self) -> int:
        """Its address, a multiple of BASE_ALIGNMENT, with the launch bits in the low bits."""

    @property
    def extent(self) -> tuple[int, int]:
        """Start address and bytes."""

    def enqueued(self) -> None:
        """The launch that uses it is in its stream, or has failed."""

    def fetch(self) -> Bytes:
        """Its bytes on the host; waits for the launch. Raises RuntimeError if the device has faulted."""


class Buffers(Protocol):
    """Where slices come from."""

    limit_bytes: int

    def place(self, size: int, stream: int, bits: int) -> Slice:
        """A zeroed slice for a launch on this stream; size must not exceed limit_bytes."""

    def close(self) -> None:
        """No more slices; what was placed can still be fetched."""


class _HostSlice:
    def __init__(self, size: int, bits: int) -> None:
        memory = np.zeros(size + BASE_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % BASE_ALIGNMENT
        self._bytes = memory[start : start + size]
        self._bits = bits

    def data_ptr(self) -> int:
        return int(self._bytes.ctypes.data) | self._bits

    @property
    def extent(self) -> tuple[int, int]:
        return self._bytes.ctypes.data, self._bytes.nbytes

    def enqueued(self) -> None:
        pass

    def fetch(self) -> Bytes:
        return self._bytes


class HostBuffers:
    """Slices of host memory, for the emulator, which has run a launch when the launcher returns."""

    def __init__(self, budget_bytes: int) -> None:
        self.limit_bytes = budget_bytes

    def place(self, size: int, stream: int, bits: int) -> Slice:
        return _HostSlice(size, bits)

    def close(self) -> None:
        pass


class _Generation:
    """One filling of an arena; `host` receives its bytes once it is drained."""

    def __init__(self, arena: _Arena) -> None:
        self.arena = arena
        self.used = 0
        self.pending = 0  # slices placed whose launch is not enqueued yet
        self.streams: set[int] = set()
        self.host: Future[Bytes] | None = None


class _Arena:
    """Device memory that is zero from the generation's `used` on, once `ready` has passed."""

    def __init__(self, size: int, device: int) -> None:
        self.memory = torch.empty(size + BASE_ALIGNMENT, dtype=torch.uint8, device=f"cuda:{device}")
        self.start = -self.memory.data_ptr() % BASE_ALIGNMENT
        self.address = self.memory.data_ptr() + self.start
        self.ready = torch.cuda.Event()
        self.generation = _Generation(self)
        self.pinned: Future[torch.Tensor] | None = None
        self.moved: Future[Bytes] | None = None  # the last move out of `pinned`


class _DeviceSlice:
    __slots__ = ("_buffers", "_generation", "_offset", "_open", "_pointer", "_size")

    def __init__(
        self, buffers: DeviceBuffers, generation: _Generation, offset: int, size: int, bits: int
    ) -> None:
        self._buffers = buffers
        self._generation = generation
        self._offset = offset
        self._size = size
        self._pointer: int = generation.arena.address + offset | bits
        self._open = True

    def data_ptr(self) -> int:
        return self._pointer

    @property
    def extent(self) -> tuple[int, int]:
        return self._generation.arena.address + self._offset, self._size

    def enqueued(self) -> None:
        if self._open:
            self._open = False
            self._buffers.enqueued(self._generation)

    def fetch(self) -> Bytes:
        self.enqueued()
        return self._buffers.fetch(self._generation)[self._offset : self._offset + self._size]


class DeviceBuffers:
    """Arenas of one GPU. budget_bytes: device memory for all of them. Thread-safe.

    Raises torch.OutOfMemoryError when an arena does not fit.
    """

    def __init__(self, device: int, budget_bytes: int) -> None:
        self.limit_bytes = budget_bytes // 2 // BASE_ALIGNMENT * BASE_ALIGNMENT
        self._device = device
        self._side = torch.cuda.Stream(device)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)  # no launch of some generation is pending any more
        self._threads = ThreadPoolExecutor(2, "profscope-drain")
        self._movers = ThreadPoolExecutor(_MOVERS, "profscope-move")
        self._arenas = [self._new_arena()]
        self._current = self._arenas[0]

    def place(self, size: int, stream: int, bits: int) -> Slice:
        with self._lock:
            while self._current.generation.used + size > self.limit_bytes:
                self._rotate()
            generation = self._current.generation
            if stream not in generation.streams:
                self._stream(stream).wait_event(self._current.ready)
                generation.streams.add(stream)
            offset = generation.used
            generation.used = align(offset + size, BASE_ALIGNMENT)
            generation.pending += 1
            if self._current.pinned is None and generation.used > self.limit_bytes // 2:
                self._current.pinned = self._threads.submit(self._pin)
            return _DeviceSlice(self, generation, offset, size, bits)

    def enqueued(self, generation: _Generation) -> None:
        with self._lock:
            generation.pending -= 1
            if not generation.pending:
                self._idle.notify_all()

    def fetch(self, generation: _Generation) -> Bytes:
        """The bytes of a generation; drains it if that has not happened, and waits."""
        with self._lock:
            if generation.host is None:
                self._drain(generation, pinned=False)
            host = generation.host
        assert host is not None
        return host.result()

    def close(self) -> None:
        """Drain what is left and give the device memory back."""
        with self._lock:
            for arena in self._arenas:
                if arena.generation.used:
                    self._drain(arena.generation, pinned=False)
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
        arena = _Arena(self.limit_bytes, self._device)
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            arena.memory.zero_()
            arena.ready.record(self._side)
        return arena

    def _pin(self) -> torch.Tensor:
        return torch.empty(self.limit_bytes, dtype=torch.uint8, pin_memory=True)

    def _rotate(self) -> None:
        """Drain the current arena in the background and go on in the other, once that is on the host."""
        full = self._current
        if full.generation.used:
            self._drain(full.generation, pinned=True)
        if self._current is not full:
            return  # draining waits, and another thread has rotated meanwhile
        if len(self._arenas) < 2:
            self._arenas.append(self._new_arena())
        self._current = next(arena for arena in self._arenas if arena is not full)

    def _drain(self, generation: _Generation, *, pinned: bool) -> None:
        """Copy a generation to the host and zero its memory, on the side stream; a new one begins."""
        arena = generation.arena
        self._idle.wait_for(lambda: not generation.pending, _ENQUEUE_TIMEOUT_S)
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
            arena.moved = generation.host = self._threads.submit(self._move, host.numpy(), drained)
        else:
            generation.host = Future()
            generation.host.set_result(host.numpy())
        arena.generation = _Generation(arena)

    def _move(self, pinned: Bytes, drained: torch.cuda.Event) -> Bytes:
        """Wait for a drain and copy it to pageable memory."""
        drained.synchronize()
        host = np.empty_like(pinned)
        cuts = [len(host) * i // _MOVERS for i in range(_MOVERS + 1)]
        parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        for _ in self._movers.map(lambda part: np.copyto(host[part], pinned[part]), parts):
            pass
        return host
