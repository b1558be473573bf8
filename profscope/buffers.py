"""Memory that launches record into: zeroed slices of device arenas, drained without stopping anything.

A launch costs a bump of a pointer. Two arenas alternate: when one is full, a side stream waits for the
launches that used it, copies its used bytes to pinned host memory in one copy, zeroes them, and meanwhile
launches record into the other. The launching thread waits only when both are full: back-pressure instead of
growth.
"""

from __future__ import annotations

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


class Slice(Protocol):
    """A launch's buffer. address: multiple of BASE_ALIGNMENT; size: bytes."""

    address: int
    size: int

    def enqueued(self) -> None:
        """The launch that uses it is in its stream, or has failed."""

    def fetch(self) -> Bytes:
        """Its bytes on the host; waits for the launch. Raises RuntimeError if the device has faulted."""


class Buffers(Protocol):
    """Where slices come from."""

    limit_bytes: int

    def place(self, size: int, stream: int) -> Slice:
        """A zeroed slice for a launch on this stream; size must not exceed limit_bytes."""

    def close(self) -> None:
        """No more slices; what was placed can still be fetched."""


class _HostSlice:
    def __init__(self, size: int) -> None:
        memory = np.zeros(size + BASE_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % BASE_ALIGNMENT
        self._bytes = memory[start : start + size]
        self.address = self._bytes.ctypes.data
        self.size = size

    def enqueued(self) -> None:
        pass

    def fetch(self) -> Bytes:
        return self._bytes


class HostBuffers:
    """Slices of host memory, for the emulator, which has run a launch when the launcher returns."""

    def __init__(self, budget_bytes: int) -> None:
        self.limit_bytes = budget_bytes

    def place(self, size: int, stream: int) -> Slice:
        return _HostSlice(size)

    def close(self) -> None:
        pass


class _Generation:
    """One filling of an arena. `host` receives its bytes once it is drained."""

    def __init__(self, arena: _Arena) -> None:
        self.arena = arena
        self.used = 0
        self.pending = 0  # slices placed whose launch is not enqueued yet
        self.streams: set[int] = set()
        self.host: torch.Tensor | None = None
        self.drained = torch.cuda.Event()


class _Arena:
    """Device memory that is zero from `used` on once `ready` has passed."""

    def __init__(self, size: int, device: int) -> None:
        self.memory = torch.empty(size + BASE_ALIGNMENT, dtype=torch.uint8, device=f"cuda:{device}")
        self.start = -self.memory.data_ptr() % BASE_ALIGNMENT
        self.ready = torch.cuda.Event()
        self.generation = _Generation(self)


class _DeviceSlice:
    __slots__ = ("_buffers", "_generation", "_open", "address", "offset", "size")

    def __init__(self, buffers: DeviceBuffers, generation: _Generation, offset: int, size: int) -> None:
        self.address = generation.arena.memory.data_ptr() + offset
        self.size = size
        self.offset = offset
        self._open = True
        self._buffers = buffers
        self._generation = generation

    def enqueued(self) -> None:
        if self._open:
            self._open = False
            self._buffers.enqueued(self._generation)

    def fetch(self) -> Bytes:
        self.enqueued()
        return self._buffers.fetch(self._generation)[self.offset : self.offset + self.size]


class DeviceBuffers:
    """Arenas of one GPU. budget_bytes: device memory for all of them. Thread-safe.

    Raises torch.OutOfMemoryError when the first arenas do not fit.
    """

    def __init__(self, device: int, budget_bytes: int) -> None:
        self.limit_bytes = budget_bytes // 2 // BASE_ALIGNMENT * BASE_ALIGNMENT
        self._device = device
        self._side = torch.cuda.Stream(device)
        self._condition = threading.Condition()
        self._pinner = ThreadPoolExecutor(1, "profscope-pin")
        self._spare: Future[torch.Tensor] | None = None
        self._arenas = [self._new_arena()]
        self._current = self._arenas[0]

    def place(self, size: int, stream: int) -> Slice:
        with self._condition:
            generation = self._current.generation
            if generation.used + size > self.limit_bytes:
                generation = self._rotate()
            if stream not in generation.streams:
                self._stream(stream).wait_event(self._current.ready)
                generation.streams.add(stream)
            offset = self._current.start + generation.used
            generation.used = align(generation.used + size, BASE_ALIGNMENT)
            generation.pending += 1
            if self._spare is None and generation.used > self.limit_bytes // 2:
                self._spare = self._pinner.submit(self._pin)
            return _DeviceSlice(self, generation, offset, size)

    def enqueued(self, generation: _Generation) -> None:
        with self._condition:
            generation.pending -= 1
            if not generation.pending:
                self._condition.notify_all()

    def fetch(self, generation: _Generation) -> Bytes:
        """All bytes of the arena's memory as that generation left them; waits for its launches."""
        with self._condition:
            if generation.host is None:
                self._drain(generation, pinned=False)
            host = generation.host
        generation.drained.synchronize()
        assert host is not None
        return host.numpy()

    def close(self) -> None:
        with self._condition:
            for arena in self._arenas:
                if arena.generation.used:
                    self._drain(arena.generation, pinned=False)
        self._side.synchronize()
        self._arenas.clear()
        self._pinner.shutdown(wait=False)

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
        return torch.empty(self.limit_bytes + BASE_ALIGNMENT, dtype=torch.uint8, pin_memory=True)

    def _rotate(self) -> _Generation:
        """Drain the current arena in the background and go on in the other."""
        full = self._current
        if full.generation.used:
            self._drain(full.generation, pinned=True)
        if len(self._arenas) < 2:
            self._arenas.append(self._new_arena())
        other = next(arena for arena in self._arenas if arena is not full)
        # Back-pressure: at most one drain is under way while launches fill the other arena.
        other.ready.synchronize()
        self._current = other
        return other.generation

    def _drain(self, generation: _Generation, *, pinned: bool) -> None:
        """Copy a generation to the host and zero its memory, on the side stream; the arena begins a new one."""
        arena = generation.arena
        self._condition.wait_for(lambda: not generation.pending, _ENQUEUE_TIMEOUT_S)
        for stream in generation.streams:
            self._side.wait_event(self._stream(stream).record_event())
        end = arena.start + generation.used
        if pinned:
            spare, self._spare = self._spare, None
            host = self._pin() if spare is None else spare.result()
        else:
            host = torch.empty(end, dtype=torch.uint8)
        with torch.cuda.stream(self._side):
            host[:end].copy_(arena.memory[:end], non_blocking=pinned)
            arena.memory[:end].zero_()
            generation.drained.record(self._side)
            arena.ready.record(self._side)
        generation.host = host
        arena.generation = _Generation(arena)
