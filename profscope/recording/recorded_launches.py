"""Launches with records: each gets its buffer, and is noted in the log with the program that wrote to it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from profscope.around.host_scopes import launched_in
from profscope.compat.kernels import Call, capturing_now, current_device_now
from profscope.compat.programs import Program
from profscope.compat.triton_parts import CompiledKernel
from profscope.decoding.build import ORDINARY, Build, Mark
from profscope.device.arena import cold_bytes
from profscope.device.buffers import Lane
from profscope.device.graphs import Captured, Graphs
from profscope.instrument_passes.records import BASE_ALIGNMENT
from profscope.recording.builds import build_of
from profscope.recording.diagnostics import Diagnostics, one_line
from profscope.recording.launch_log import LaunchLog, Route
from profscope.recording.routes import Routes

__all__ = ["RecordedLaunches"]

_NO_MEMORY: Final = "no device memory is left in place of what a launch holds that is not in its stream"
_NOWHERE: Final = None  # the pointer of a launch that is not recorded after all: without the enable bit


class _Thread(threading.local):
    """lane: what the calling thread has been given memory for and has not launched yet."""

    def __init__(self) -> None:
        self.lane = Lane()


class RecordedLaunches:
    """The recorded launches of a session. Thread-safe: launches may come from any thread.

    graphs: None if there are none. captured: kernel -> its launches captured into CUDA graphs. undescribed:
    kernel -> why its configuration is not known. device(): the calling thread's; capturing(): whether what it
    launches into its current stream is captured into a CUDA graph.
    """

    def __init__(
        self,
        log: LaunchLog,
        routes: Routes,
        diagnostics: Diagnostics,
        *,
        cuda: bool,
    ) -> None:
        self.captured: Counter[str] = Counter()
        self.undescribed: dict[str, str] = {}
        self.device: Callable[[], int] = current_device_now() if cuda else int
        self.capturing: Callable[[], bool] = capturing_now() if cuda else bool
        self._thread = _Thread()
        self._log = log
        self._routes = routes
        self.graphs: Graphs | None = None
        self._diagnostics = diagnostics
        self._lock = threading.Lock()

    @property
    def seen(self) -> bool:
        """Whether a launch was given memory to record into."""
        return bool(len(self._log) or self.captured)

    def launcher(self, kernel: CompiledKernel, program: Program, call: Call) -> Callable[..., None]:
        """The function that launches a loaded binary on this thread's device, with its records. program: of
        the binary.

        It takes the arguments of Triton's launchers, also those of another binary of its configuration. call:
        launches with a buffer. Without memory, or in a hook of another launch, the binary runs without a
        buffer and records nothing.
        """
        manifest = program.manifest
        digest, of_cluster = manifest.digest, kernel.metadata.num_ctas
        own_function, own_packed = kernel.function, kernel.packed_metadata
        thread, entries, settled = self._thread, self._log.entries, self._routes.settled
        device, capturing, find = self.device(), self.capturing, self._routes.find

        # Nearly every launch comes through here. about: what Triton tells the launch hooks; others: these,
        # and the kernel's arguments.
        def launch(
            x: int, y: int, z: int, stream: int, function: Any, packed: Any, about: Any, *others: Any
        ) -> None:
            if about is not None:
                about.data["function"] = own_function
            lane = thread.lane
            if lane.filling:
                self._diagnostics.skip("a hook of another launch launched it")
                return call(_NOWHERE, x, y, z, stream, own_function, own_packed, about, *others)
            if stream and capturing():  # stream 0, the default one, cannot be captured
                args = x, y, z, stream, own_function, own_packed, about, *others
                return self._capture(program, x * y * z * of_cluster, call, args)
            route, pointer, host = None, _NOWHERE, launched_in()
            try:
                ctas = x * y * z * of_cluster
                route = settled.get((digest, ctas, stream, device)) or find(manifest, ctas, stream, device)
                if route is not None:
                    bits = route.bits | next(route.turns)
                    pointer = route.place(lane, route.needed, stream, bits, route.plan.zero)
                    if pointer is None:  # the buffers are closed
                        self._diagnostics.skip(self._diagnostics.stopped or _NO_MEMORY)
            except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
                self._diagnostics.skip(one_line(error))
            try:
                call(pointer, x, y, z, stream, own_function, own_packed, about, *others)
            finally:  # a launch that has raised may have written, as one that the emulator ends by a fault
                if route is not None and pointer is not None:
                    entries.append((program, route, lane.filling, lane.offset, ORDINARY, host))
                filling, lane.filling = lane.filling, None  # `Lane.enqueued`, inlined
                if filling is not None and filling.awaited:
                    filling.wake()

        return launch

    def describe(self, kernel: CompiledKernel, warps: int | None = None) -> Build | None:
        """As `build_of`; None if that fails, since this runs inside of a user's launch."""
        try:
            return build_of(kernel, warps)
        except Exception as error:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
            self.undescribed[kernel.name] = one_line(error)
            return None

    def _capture(self, program: Program, ctas: int, call: Call, args: tuple[Any, ...]) -> None:
        """Launch into the CUDA graph that is being captured; this must not wait for anything."""
        if self._diagnostics.stopped:
            self._diagnostics.skip(self._diagnostics.stopped)
            return call(_NOWHERE, *args)
        graph = None if self.graphs is None else self.graphs.current()
        if graph is None:
            self._diagnostics.skip("the CUDA graph they were captured into began outside the session")
            return call(_NOWHERE, *args)
        if graph.free_bytes < BASE_ALIGNMENT:
            self._diagnostics.skip("CUDA graphs captured in the session need more memory; memory= gives more")
            return call(_NOWHERE, *args)
        plan = self._routes.planner.plan_captured(program.manifest, ctas, graph.free_bytes)
        if plan is None:
            return call(_NOWHERE, *args)
        address, offset = graph.place(plan.needed)
        call(address | plan.pointer_bits | next(self._routes.turns(program.manifest, ctas)), *args)
        graph.launches.append((program, plan, offset))
        with self._lock:
            self.captured[program.manifest.kernel] += 1
        return None

    def keep(self, graph: Captured, replay: int, stream: int) -> None:
        """Copy what a replay of a graph recorded behind it, and note its launches; see `Graphs`."""
        lane = self._thread.lane
        if self._diagnostics.stopped:
            self._diagnostics.skip(self._diagnostics.stopped, len(graph.launches))
            return
        try:
            self._copy(graph, lane, replay, stream)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's replay goes on
            why = one_line(error)
            self._diagnostics.skip(why, len(graph.launches))
        finally:
            lane.enqueued()

    def _copy(self, graph: Captured, lane: Lane, replay: int, stream: int) -> None:
        buffers = self._routes.buffers(graph.device)
        if buffers is None:
            return
        memory = graph.memory
        buffers.place(lane, memory.nbytes, stream, 0, ())
        filling, offset = lane.filling, lane.offset
        if filling is None:
            self._diagnostics.skip(self._diagnostics.stopped or _NO_MEMORY, len(graph.launches))
            return
        buffers.copy(filling, offset, memory)
        host = launched_in()
        mark = Mark(graph=graph.index, replay=replay, cold=memory.nbytes > cold_bytes(graph.device))
        for program, plan, at in graph.launches:
            route = Route.of(buffers, plan, stream, graph.device, iter(()))
            self._log.entries.append((program, route, filling, offset + at, mark, host))
