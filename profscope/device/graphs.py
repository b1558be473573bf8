"""CUDA graphs: a graph captured in a session records at every replay.

A captured launch keeps the pointer it was given, and with it its memory, as long as the graph lives: the
graph object holds it, past the session too. Each replay in the session finds the memory zeroed and is copied
out behind itself, in its stream, so that replays never overwrite each other's records.

Replays are seen through `torch.cuda.CUDAGraph`. Those that other code launches (a raw cudaGraphExec_t, a
child graph) record into the same memory, but that is not collected.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from profscope.compat.kernels import watched_graphs
from profscope.compat.programs import Program
from profscope.device import cuda_driver
from profscope.device.arena_memory import DeviceMemory
from profscope.instrument_passes.records import BASE_ALIGNMENT, align

__all__ = ["Captured", "Graphs"]

_ATTRIBUTE: Final = "_profscope_captured"  # of a torch.cuda.CUDAGraph; keeps the memory


class _Shared(DeviceMemory):
    """Memory that graphs captured one after the other share. used: bytes given to them."""

    def __init__(self, size: int, device: int) -> None:
        super().__init__(size, device)
        self.size = size
        self.used = 0


class Captured:
    """A graph captured in a session. index: in the session; launches: those that record, each with what the
    collector knows of it and its offset in the graph's memory."""

    def __init__(self, index: int, owner: Graphs, device: int, shared: _Shared | None) -> None:
        self.index = index
        self.owner = owner
        self.device = device
        self.launches: list[tuple[Program, Any, int]] = []
        self.replays = 0
        self.lock = threading.Lock()
        self.last: tuple[int, torch.cuda.Event] | None = None  # the last replay's stream, and its end there
        self.shared = shared
        self.thread = threading.get_ident()
        self._begin = self._end = shared.used if shared is not None else 0

    @property
    def free_bytes(self) -> int:
        """How much the launches yet to be captured may take."""
        return 0 if self.shared is None else self.shared.size - self.shared.used

    @property
    def memory(self) -> torch.Tensor:
        """The memory of all its launches: uint8, on the device."""
        assert self.shared is not None
        return self.shared.memory[self.shared.start + self._begin : self.shared.start + self._end]

    def place(self, size: int) -> tuple[int, int]:
        """Address and offset of memory for a launch; size must not exceed free_bytes."""
        assert self.shared is not None
        at = self.shared.used
        self.shared.used = self._end = align(at + size, BASE_ALIGNMENT)
        return self.shared.address + at, at - self._begin


class Graphs:
    """Installed for the length of a session on a GPU.

    settle: called before a capture, while waiting is still allowed. keep: takes a graph, the number of its
    replay and the stream, and copies the graph's memory in that stream's order. every: one in so many replays
    of a graph is collected, beginning with the first. strangers: replays of graphs that were captured outside
    the session. beginning: called before each capture.
    """

    def __init__(
        self,
        shared_bytes: int,
        every: int,
        settle: Callable[[], None],
        keep: Callable[[Captured, int, int], None],
    ) -> None:
        self.strangers = 0
        self.beginning: Callable[[], None] = lambda: None
        self._shared_bytes = align(shared_bytes, BASE_ALIGNMENT)
        self._every = every
        self._settle = settle
        self._keep = keep
        self._lock = threading.Lock()
        self._beginning = threading.RLock()  # what flushes between captures asks for costs, which does, too
        self._count = 0
        self._open: list[Captured] = []
        self._spare: dict[int, list[_Shared]] = {}  # by device

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """See captures and replays in the body of a with statement."""
        with watched_graphs(self._begin, self._end, self._replay):
            yield

    @property
    def capturing(self) -> bool:
        """Whether some thread captures a graph."""
        return bool(self._open)

    @contextlib.contextmanager
    def between_captures(self) -> Iterator[bool]:
        """Whether nothing is being captured; this stays true in the body of the with statement."""
        with self._beginning:
            yield not self._open

    def current(self) -> Captured | None:
        """The graph that this thread's launches are captured into; None if that cannot be told.

        Autograd launches from threads of its own, so where only one graph is being captured, it is that one.
        """
        with self._lock:
            if len(self._open) == 1:
                return self._open[0]
            mine = [captured for captured in self._open if captured.thread == threading.get_ident()]
        return mine[-1] if mine else None

    def _begin(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def capture_begin(graph: Any, *args: Any, **options: Any) -> Any:
            with self._beginning:
                captured = self._new(torch.cuda.current_device())
                self.beginning()  # last: a window of a budget, which opens for it, may end meanwhile
                result = begin(graph, *args, **options)
                setattr(graph, _ATTRIBUTE, captured)
                with self._lock:
                    self._open.append(captured)
                return result

        return capture_begin

    def _new(self, device: int) -> Captured:
        with self._lock:
            alone = not self._open
            spare = self._spare.setdefault(device, [])
            shared = spare.pop() if spare else None
            index, self._count = self._count, self._count + 1
        if alone:  # what waits or allocates would break the capture of another graph
            self._settle()
            if shared is None or shared.size - shared.used < self._shared_bytes // 2:
                with contextlib.suppress(torch.OutOfMemoryError):  # its launches will say so
                    shared = _Shared(self._shared_bytes, device)
        return Captured(index, self, device, shared)

    def _end(self, end: Callable[..., Any]) -> Callable[..., Any]:
        def capture_end(graph: Any) -> Any:
            try:
                return end(graph)
            finally:
                captured = vars(graph).get(_ATTRIBUTE)
                with self._lock:
                    if captured in self._open:
                        self._open.remove(captured)
                        if captured.shared is not None:
                            self._spare[captured.device].append(captured.shared)

        return capture_end

    def _replay(self, replay: Callable[..., Any]) -> Callable[..., Any]:
        def collected(graph: Any) -> Any:
            captured: Captured | None = vars(graph).get(_ATTRIBUTE)
            if captured is None or captured.owner is not self:
                self.strangers += 1
                return replay(graph)
            if not captured.launches or torch.cuda.is_current_stream_capturing():
                return replay(graph)
            with captured.lock:
                number, captured.replays = captured.replays, captured.replays + 1
                if number % self._every:
                    return replay(graph)
                stream = torch.cuda.current_stream()
                if captured.last is not None and captured.last[0] != stream.cuda_stream:
                    stream.wait_event(captured.last[1])
                memory = captured.memory
                cuda_driver.zero(memory.data_ptr(), memory.nbytes, stream.cuda_stream)
                result = replay(graph)
                self._keep(captured, number, stream.cuda_stream)
                captured.last = stream.cuda_stream, stream.record_event()
                memory.record_stream(stream)  # should the graph go while this runs
            return result

        return collected
