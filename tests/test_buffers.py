"""Device arenas, on memory of the host that stands in for a GPU's: what a drain copies, who may fill what.

The stand-in executes at once, so it shows nothing about the order of streams; `tests/gpu` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from instrument_passes.records import BASE_ALIGNMENT
from profscope import buffers
from profscope.buffers import DeviceBuffers, Slice

LIMIT = 64 * BASE_ALIGNMENT


class _Event:
    def record(self, stream: object) -> None: ...

    def synchronize(self) -> None: ...


class _Stream:
    def __init__(self, *where: int) -> None: ...

    def wait_event(self, event: _Event) -> None: ...

    def wait_stream(self, stream: _Stream) -> None: ...

    def record_event(self) -> _Event:
        return _Event()

    def synchronize(self) -> None: ...


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> DeviceBuffers:
    def empty(size: int, dtype: torch.dtype = torch.uint8, **where: object) -> torch.Tensor:
        return torch.full((size,), 0xEE, dtype=torch.uint8)  # device memory comes with anything in it

    cuda = SimpleNamespace(
        Event=_Event,
        Stream=_Stream,
        ExternalStream=_Stream,
        default_stream=_Stream,
        current_stream=_Stream,
        stream=lambda stream: contextlib.nullcontext(),
    )
    monkeypatch.setattr(buffers, "torch", SimpleNamespace(empty=empty, uint8=torch.uint8, cuda=cuda))
    return DeviceBuffers(0, 2 * LIMIT)


def fill(slice_: Slice, value: int) -> None:
    """What a launch does: finds its memory zeroed, writes, and is in its stream."""
    address, size = slice_.extent
    assert ctypes.string_at(address, size) == bytes(size)
    ctypes.memset(address, value, size)
    slice_.enqueued()


def test_an_address_carries_the_bits_and_is_aligned(arenas: DeviceBuffers) -> None:
    slice_ = arenas.place(100, 0, 0b1011)
    address, size = slice_.extent
    assert slice_.data_ptr() == address | 0b1011
    assert (address % BASE_ALIGNMENT, size) == (0, 100)
    slice_.enqueued()
    arenas.close()


def test_what_was_written_comes_back_through_any_number_of_rotations(arenas: DeviceBuffers) -> None:
    slices = []
    for index in range(500):
        slices.append(arenas.place(LIMIT // 7, index % 3, 1))
        fill(slices[-1], index % 251 + 1)
        if index % 97 == 0:
            slices[-1].fetch()  # in the middle of a filling
    arenas.close()
    for index, slice_ in enumerate(slices):
        assert np.unique(slice_.fetch()).tolist() == [index % 251 + 1]


def test_threads_that_fill_the_arenas_together_lose_nothing(arenas: DeviceBuffers) -> None:
    kept: list[tuple[int, Slice]] = []
    wrong: list[BaseException] = []
    ready = threading.Barrier(4)

    def work(number: int) -> None:
        sizes = random.Random(number)
        ready.wait()
        try:
            for index in range(300):
                value = (number * 300 + index) % 255 + 1
                slice_ = arenas.place(sizes.randrange(1, LIMIT // 3), number, 1)
                fill(slice_, value)
                kept.append((value, slice_))
        except AssertionError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    arenas.close()
    assert wrong == []
    assert len(kept) == 1200
    assert all(np.unique(slice_.fetch()).tolist() == [value] for value, slice_ in kept)


def test_closing_gives_the_device_memory_back(arenas: DeviceBuffers) -> None:
    slice_ = arenas.place(1000, 0, 1)
    fill(slice_, 7)
    arenas.close()
    assert sum(arena.memory.nbytes for arena in arenas._arenas) == 0
    assert slice_.fetch().tolist() == [7] * 1000
