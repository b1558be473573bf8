"""CUDA graphs, on memory of the host that stands in for a GPU's: who owns a captured launch's memory, and
what each replay leaves. `tests/gpu` shows the same on a device."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from profscope.compat.programs import Program
from profscope.decoding.build import Mark
from profscope.device.backend import Backend
from profscope.instrument_passes.records import BASE_ALIGNMENT, LaunchBits
from profscope.instrument_passes.selection import ADDRESS_BITS
from profscope.options import Options
from profscope.recording.recorder import Recorder
from tests.support import standin
from tests.support.sessions import launch_add, parts_of_session

CTAS = 4
STREAM = 0x70


@pytest.fixture(scope="module")
def program() -> Program:
    """A binary that records."""
    with parts_of_session() as parts:
        launch_add()
        (launch,) = parts.recorder.log.launches
    return launch.program


class Device:
    """A stand-in GPU with a recorder on it."""

    def __init__(self, gpu: standin.Gpu, program: Program, options: Options) -> None:
        self.gpu = gpu
        self.zeroed = True  # launches check that their memory is
        self.program = program
        self.bytes = CTAS * program.manifest.cta_bytes(0)
        self.recorder = Recorder(options, Backend("cuda", dict), {})

    def launch(self, value: int, graph: Any = None, *, fails: bool = False) -> int | None:
        """Launch the binary, which finds its memory zeroed and fills it with `value`; returns its pointer."""
        pointers: list[int | None] = []

        def call(pointer: int | None, *args: Any) -> None:
            pointers.append(pointer)
            if fails:
                raise ValueError
            if pointer is None:
                return
            assert pointer & LaunchBits.ENABLE

            def run() -> None:
                address = pointer & (1 << ADDRESS_BITS) - BASE_ALIGNMENT
                if self.zeroed:
                    assert ctypes.string_at(address, self.bytes) == bytes(self.bytes)
                ctypes.memset(address, value, self.bytes)

            if graph is None:
                run()
            else:
                graph.nodes.append(run)

        metadata = SimpleNamespace(num_ctas=1)
        kernel: Any = SimpleNamespace(metadata=metadata, function=None, packed_metadata=None)
        with contextlib.suppress(ValueError):
            self.recorder.launches.launcher(kernel, self.program, call)(
                CTAS, 1, 1, STREAM, None, None, None
            )  # fmt: skip
        (pointer,) = pointers
        return pointer

    def capture(self, *values: int) -> Any:
        graph = self.gpu.graph()  # type: ignore[attr-defined]
        graph.capture_begin()
        for value in values:
            self.launch(value, graph)
        graph.capture_end()
        return graph

    def recorded(self) -> list[tuple[Mark, int]]:
        """Each launch's mark, and what it wrote."""
        found = []
        for launch in self.recorder.log.launches:
            (value,) = np.unique(launch.fetch()[: self.bytes])
            found.append((launch.mark, int(value)))
        return found


@pytest.fixture
def device(program: Program, request: pytest.FixtureRequest) -> Iterator[Device]:
    with standin.gpu() as gpu:
        made = Device(gpu, program, getattr(request, "param", Options(memory=1)))
        with made.recorder.installed():
            yield made
        made.recorder.close()


def in_graph(graph: int, replay: int) -> Mark:
    return Mark(graph=graph, replay=replay)


def test_every_replay_of_every_graph_is_told_apart(device: Device) -> None:
    device.launch(1)
    first, second = device.capture(2, 3), device.capture(4)
    assert device.recorded() == [(Mark(), 1)]  # capturing runs nothing
    first.replay()
    second.replay()
    device.launch(5)
    first.replay()
    assert device.recorded() == [
        (Mark(), 1),
        (in_graph(0, 0), 2), (in_graph(0, 0), 3),
        (in_graph(1, 0), 4),
        (Mark(), 5),
        (in_graph(0, 1), 2), (in_graph(0, 1), 3),
    ]  # fmt: skip
    assert device.recorder.diagnostics.unrecorded == {}
    assert device.recorder.launches.captured == {"add_kernel": 3}


def test_replays_outlast_any_number_of_full_arenas(device: Device) -> None:
    graph = device.capture(7, 8)
    count = 3 * (1 << 20) // (2 * device.bytes)
    for _ in range(count):
        graph.replay()
    assert device.recorded() == [(in_graph(0, n), value) for n in range(count) for value in (7, 8)]


def test_a_graph_keeps_its_memory_past_the_session_and_no_longer(device: Device) -> None:
    graph = device.capture(9)
    device.recorder.close()
    memory = weakref.ref(vars(graph)["_profscope_captured"].shared)
    device.recorder = None  # type: ignore[assignment]
    gc.collect()
    assert memory() is not None
    device.recorder = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]


@pytest.mark.parametrize("device", [Options(memory=1, every=3)], indirect=True)
def test_one_replay_in_so_many_is_collected(device: Device) -> None:
    device.zeroed = False  # what nobody collects need not be
    graph = device.capture(2)
    for _ in range(7):
        graph.replay()
    assert device.recorded() == [(in_graph(0, n), 2) for n in (0, 3, 6)]


def test_a_graph_that_needs_more_than_its_memory_says_so(device: Device) -> None:
    room = (1 << 17) // (-(-device.bytes // BASE_ALIGNMENT) * BASE_ALIGNMENT)
    graph = device.capture(*[3] * (room + 5))
    graph.replay()
    assert len(device.recorded()) == room
    assert list(device.recorder.diagnostics.unrecorded.values()) == [5]
    (why,) = device.recorder.diagnostics.unrecorded
    assert "memory=" in why


def test_replays_after_recording_has_stopped_are_counted(device: Device) -> None:
    graph = device.capture(1, 2)
    graph.replay()
    device.recorder.diagnostics.stop("enough")
    graph.replay()
    device.launch(3)
    assert device.capture(4).nodes == []
    assert [mark for mark, _ in device.recorded()] == [in_graph(0, 0)] * 2
    assert device.recorder.diagnostics.unrecorded == {"enough": 4}


def test_launches_leave_memory_once_they_are_taken_to_the_spool(device: Device) -> None:
    taken, launches = 0, 600  # more than the arenas hold
    for value in range(launches):
        device.launch(value % 250 + 1)
        while device.recorder.take(1) is not None:
            taken += 1
    assert 0 < taken < launches
    assert len(device.recorder.log) == launches
    assert len(device.recorder.log.launches) == launches - taken
    device.recorder.drain()
    while device.recorder.take(1) is not None:
        taken += 1
    assert (taken, device.recorder.log.launches) == (launches, [])


def test_a_device_without_memory_leaves_the_captured_launches_bare(device: Device) -> None:
    device.launch(1)
    device.gpu.full = True
    graph = device.capture(2)
    graph.replay()
    assert device.recorded() == [(Mark(), 1)]
    assert sum(device.recorder.diagnostics.unrecorded.values()) == 1


def test_what_was_captured_outside_the_session_is_counted(device: Device) -> None:
    graph = device.gpu.graph()  # type: ignore[attr-defined]
    device.gpu.capturing = True  # nobody saw it begin
    assert device.launch(2, graph) is None
    device.gpu.capturing = False
    graph.replay()
    assert device.recorded() == []
    of_launch, of_replay = device.recorder.notes()
    assert of_launch.startswith("1 launch ran unrecorded: ")
    assert of_replay.startswith("1 replays of CUDA graphs ran unrecorded: ")


def test_a_capture_that_fails_leaves_nothing_open(device: Device) -> None:
    graph = device.gpu.graph()  # type: ignore[attr-defined]
    graph.capture_begin()
    device.launch(3, graph, fails=True)
    graph.capture_end()
    device.launch(4)
    again = device.capture(5)
    again.replay()
    assert device.recorded() == [(Mark(), 4), (in_graph(1, 0), 5)]


def test_a_launch_that_finds_no_memory_runs_bare_and_the_next_do_not_try_again(device: Device) -> None:
    device.gpu.full = True
    assert device.launch(1) is None
    device.gpu.full = False
    assert device.launch(2) is None
    ((why, count),) = device.recorder.diagnostics.unrecorded.items()
    assert count == 2
    assert "1 MiB of memory=" in why


def test_what_holds_captures_off_may_ask_for_what_does_so_itself(device: Device) -> None:
    """A flush does, which describes what recording cost."""
    graphs = device.recorder.graphs
    assert graphs is not None
    with graphs.between_captures() as free, graphs.between_captures() as still_free:
        assert free
        assert still_free
