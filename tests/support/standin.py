"""Host memory that stands in for a GPU's, where device arenas are tested and timed without one.

It executes at once, so it shows nothing about the order of streams; `tests/gpu` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest import mock

import torch

from profscope.compat import kernels
from profscope.device import arena, arena_memory, cuda_driver, graphs
from profscope.instrument_passes.records import BASE_ALIGNMENT
from profscope.recording import routes

L2_BYTES = 32 * BASE_ALIGNMENT


class _Event:
    def record(self, stream: object) -> None: ...

    def synchronize(self) -> None: ...


class _Stream:
    cuda_stream = 0

    def __init__(self, *where: int) -> None: ...

    def wait_event(self, event: _Event) -> None: ...

    def wait_stream(self, stream: _Stream) -> None: ...

    def record_event(self) -> _Event:
        return _Event()

    def synchronize(self) -> None: ...


class _Memory(torch.Tensor):
    def record_stream(self, stream: object) -> None: ...


def _zero(
    address: int, size: int, stream: int, *, rows: int = 1, step: int = 0, at_once: bool = False
) -> None:
    for row in range(rows):
        ctypes.memset(address + row * step, 0, size)


def _copy(to: int, source: int, size: int, stream: int) -> None:
    ctypes.memmove(to, source, size)


class Gpu:
    """What the device does beside executing. capturing: a launch is captured into a graph, not run. full: it
    has no memory left; page_locked_out: the host has none to pin. held_bytes: memory of the device in use."""

    capturing = False
    full = False
    page_locked_out = False

    def __init__(self) -> None:
        self._held: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()

    @property
    def held_bytes(self) -> int:
        return sum(each.nbytes for each in self._held)

    def empty(self, size: int, dtype: torch.dtype = torch.uint8, **where: object) -> torch.Tensor:
        if self.full and where.get("device", "cpu") != "cpu":
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.page_locked_out and "pin_memory" in where:
            raise RuntimeError("CUDA error: out of memory")
        # Device memory comes with anything in it.
        made = torch.full((size,), 0xEE, dtype=torch.uint8).as_subclass(_Memory)
        if where.get("device", "cpu") != "cpu":
            self._held.add(made)
        return made


class Graph:
    """torch.cuda.CUDAGraph: what is appended to `nodes` runs at each replay."""

    device: Gpu

    def __init__(self) -> None:
        self.nodes: list[Callable[[], None]] = []

    def capture_begin(self, *args: object, **options: object) -> None:
        self.device.capturing = True

    def capture_end(self) -> None:
        self.device.capturing = False

    def replay(self) -> None:
        for node in self.nodes:
            node()


@contextlib.contextmanager
def gpu() -> Iterator[Gpu]:
    """The modules of profscope that work with a device find this one in place of torch's."""
    device = Gpu()
    cuda = SimpleNamespace(
        Event=_Event,
        Stream=_Stream,
        ExternalStream=_Stream,
        default_stream=_Stream,
        current_stream=_Stream,
        stream=lambda stream: contextlib.nullcontext(),
        CUDAGraph=type("CUDAGraph", (Graph,), {"device": device}),
        current_device=int,
        get_device_properties=lambda device: SimpleNamespace(L2_cache_size=L2_BYTES),
        is_current_stream_capturing=lambda: device.capturing,
    )
    stand_in = SimpleNamespace(
        empty=device.empty,
        uint8=torch.uint8,
        cuda=cuda,
        _C=SimpleNamespace(_cuda_getDevice=int, _cuda_isCurrentStreamCapturing=lambda: device.capturing),
        OutOfMemoryError=torch.OutOfMemoryError,
    )
    with contextlib.ExitStack() as stack:
        for module in (arena, arena_memory, graphs, kernels, routes):
            stack.enter_context(mock.patch.object(module, "torch", stand_in))
        for name, function in (("zero", _zero), ("copy", _copy)):
            stack.enter_context(mock.patch.object(cuda_driver, name, function))
        device.graph = cuda.CUDAGraph  # type: ignore[attr-defined]
        yield device
