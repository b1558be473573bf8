"""Host memory that stands in for a GPU's, where device arenas are tested and timed without one.

It executes at once, so it shows nothing about the order of streams; `tests/gpu` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

import torch

from profscope import buffers, collect

__all__ = ["gpu"]


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


@contextlib.contextmanager
def gpu(capturing: bool = False) -> Iterator[None]:
    """`profscope.buffers` and `profscope.collect` find this device in place of torch's."""

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
    functions = SimpleNamespace(_cuda_getDevice=int, _cuda_isCurrentStreamCapturing=lambda: capturing)
    stand_in = SimpleNamespace(
        empty=empty, uint8=torch.uint8, cuda=cuda, _C=functions, OutOfMemoryError=torch.OutOfMemoryError
    )
    with mock.patch.object(buffers, "torch", stand_in), mock.patch.object(collect, "torch", stand_in):
        yield
