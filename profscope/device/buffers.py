"""Buffers that launches record into, in parts; here in the host's memory.

`arena.py` has those of a GPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from profscope.device.sizing import Blocks
from profscope.instrument_passes.records import BASE_ALIGNMENT

__all__ = ["Buffers", "Filling", "Full", "HostBuffers", "Lane"]

Bytes = npt.NDArray[np.uint8]


class Lane:
    """One launching thread: the launch that it has been given memory for and that may not be in its stream
    yet, and its claim, memory for launches to come. Only its thread writes it, so that nothing in the launch
    path needs a lock for it; but who drains a filling takes the claims on it away.
    """

    __slots__ = ("claim", "claimant", "end", "filling", "next", "offset")

    def __init__(self) -> None:
        self.filling: Filling | None = None
        self.offset = 0
        self.claim: Any = None  # a filling
        self.claimant: Any = None  # the stream in whose launches it may be used
        self.next = 0  # where in the claim the next launch's memory begins
        self.end = -1  # of the claim; the last thing that is read of it

    def enqueued(self) -> None:
        """The launch is in its stream, has failed, or has been given no memory after all."""
        filling = self.filling
        if filling is not None:
            self.filling = None  # before the look at `awaited`
            if filling.awaited:
                filling.wake()


class Filling:
    """The memory that a launch's part belongs to; this one is never drained, cold or late.

    awaited: someone waits until it is no lane's `filling`. drained: fetch() waits for nothing but a copy that
    is under way.
    """

    __slots__ = ()
    awaited = False
    drained = True

    def wake(self) -> None:
        """A launch has been enqueued and someone waits for it."""

    def is_cold(self, offset: int) -> bool:
        """Whether so much was zeroed right before the launch with memory there that it began with other
        caches than it would have had."""
        return False

    def is_late(self, offset: int) -> bool:
        """Whether the launch with memory there was not in its stream in time: what it writes is lost."""
        return False

    def fetch(self, offset: int, size: int) -> Bytes:
        """A launch's bytes on the host; waits for it. Raises RuntimeError if the device has faulted."""
        raise NotImplementedError


class Buffers(Protocol):
    """The source of fillings."""

    limit_bytes: int

    def place(
        self,
        lane: Lane,
        size: int,
        stream: int,
        bits: int,
        zero: Sequence[Blocks] | None = None,
    ) -> Any:
        """Zeroed memory for a launch on this stream, in `lane.filling` at `lane.offset`.

        zero: the byte ranges that must be zero; None for all. If the host is behind, it waits.

        Returns a pointer for Triton's launcher: the address, a multiple of BASE_ALIGNMENT, with the launch
        bits in the low bits, or an object that holds it; None, and no filling, once the buffers are closed.
        size must not exceed limit_bytes.
        """

    def copy(self, filling: Any, offset: int, source: torch.Tensor) -> None:
        """Copy device memory to where `place` placed, in the current stream."""

    def close(self) -> None:
        """No more launches; placed ones can still be fetched."""


# Called when an arena has been filled and is on its way to the host, with its bytes; it may wait, but not for
# what takes the buffers' lock.
Full = Callable[[int], None]


class _HostFilling(Filling):
    """One launch's, and its pointer: it names its memory itself, as `extent`.

    A launch needs aligned memory, and records do not. So a small one is copied once its launch has ended.
    """

    def __init__(self, size: int, bits: int, lane: Lane) -> None:
        self._lane = lane
        memory = np.zeros(size + BASE_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % BASE_ALIGNMENT
        self._bytes = memory[start : start + size]
        self._bits = bits
        self._is_small = size < BASE_ALIGNMENT
        self.kept_bytes = size if self._is_small else memory.nbytes

    def data_ptr(self) -> int:
        return int(self._bytes.ctypes.data) | self._bits

    @property
    def extent(self) -> tuple[int, int]:
        return self._bytes.ctypes.data, self._bytes.nbytes

    @property
    def drained(self) -> bool:  # type: ignore[override]
        return self._lane.filling is not self

    def ended(self) -> None:
        """The emulator's launcher has run the launch: nothing is written any more."""
        if self._is_small:
            self._bytes = self._bytes.copy()

    def fetch(self, offset: int, size: int) -> Bytes:
        return self._bytes


class HostBuffers:
    """Host memory, for the emulator, which has run a launch when the launcher returns."""

    def __init__(self, budget_bytes: int, full: Full) -> None:
        self.limit_bytes = budget_bytes
        self._full = full
        self._used = 0
        self._closed = False

    def place(
        self,
        lane: Lane,
        size: int,
        stream: int,
        bits: int,
        zero: Sequence[Blocks] | None = None,
    ) -> _HostFilling | None:
        if self._closed:
            return None
        filling = _HostFilling(size, bits, lane)
        self._used += filling.kept_bytes
        if self._used > self.limit_bytes // 2:
            self._full(self._used)
            self._used = filling.kept_bytes
        lane.filling = filling
        lane.offset = 0
        return filling

    def copy(self, filling: _HostFilling, offset: int, source: torch.Tensor) -> None:
        raise NotImplementedError("the emulator has no graphs")

    def close(self) -> None:
        self._closed = True
